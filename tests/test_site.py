"""The documentation site: builds without a warning, needs nothing from elsewhere, and works in a real browser."""

import functools
import http.server
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Searches, opens the first result that is about the API, and says what is seen there.
LOOK = """<script>
const wait = async (what) => {
  for (let i = 0; i < 100; i++) {
    const found = what()
    if (found) return found
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error("waited in vain for " + what)
}
const look = async () => {
  if (!location.pathname.endsWith("api.html")) {
    const input = await wait(() => document.querySelector(".md-search__input"))
    document.querySelector("#__search").click()
    input.focus()
    input.value = "OPOLearner oracle"
    input.dispatchEvent(new Event("keyup", {bubbles: true}))
    input.dispatchEvent(new Event("input", {bubbles: true}))
    const link = await wait(() => document.querySelector('.md-search-result__link[href*="api.html"]'))
    location.href = link.href
    return null
  }
  const box = (element) => element.getBoundingClientRect()
  const inside = document.querySelector('[id="opo_cmab.OPOLearner"]').closest(".doc-object")
  const roots = [...inside.querySelectorAll("math msqrt")]
  const navigation = [...document.querySelectorAll(".md-nav--primary a.md-nav__link")].map((a) => a.textContent.trim())
  return {
    title: document.title,
    roots: roots.map((root) => [box(root).width, box(root).height]),
    lines: inside.querySelectorAll('math[display="block"] mtr').length,
    navigation,
    raw: document.body.innerText.match(/\\\\(frac|sqrt|pi|hat|min)\\b/g),
  }
}
addEventListener("load", async () => {
  let found
  try { found = await look() } catch (error) { found = {error: String(error)} }
  if (found === null) return
  fetch("/found", {method: "POST", body: JSON.stringify(found)})
})
</script>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    target = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
    return target


def test_the_site_has_every_page_and_loads_nothing_from_elsewhere(site):
    pages = {path.relative_to(site).with_suffix(".md").as_posix() for path in site.rglob("*.html")}
    sources = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert sources <= pages
    for path in site.rglob("*.html"):
        text = path.read_text()
        loaded = re.findall(r'<(?:script|link|img|iframe|source)\b[^>]*(?:src|href)="([a-z]*:?//[^"]*)"', text)
        assert loaded == [], path
        prose = re.sub(r"<(code|pre|script)\b.*?</\1>", "", text, flags=re.DOTALL)
        assert not re.search(r"arithmatex|\$\\|\\(frac|sqrt|pi|beta|hat)\b", prose), path  # all formulas are rendered


@pytest.fixture
def served(site, tmp_path):
    """The site's address, and a queue for what the browser reports."""
    copy = shutil.copytree(site, tmp_path / "site")
    for name in ("index.html", "api.html"):
        page = copy / name
        page.write_text(page.read_text().replace("</head>", LOOK + "</head>"))
    reports: queue.Queue[dict] = queue.Queue()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_POST(self):
            reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(copy)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", reports
    server.shutdown()
    server.server_close()


def test_search_leads_to_the_api_and_its_formulas_are_rendered(served, tmp_path):
    chromium = shutil.which("chromium") or pytest.skip("chromium is not installed (apt-get install chromium)")
    address, reports = served
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]  # stays open until ended
    flags += [f"--user-data-dir={tmp_path / 'profile'}", f"{address}/index.html"]
    with (tmp_path / "log").open("w") as log, subprocess.Popen([chromium, *flags], stdout=log, stderr=log) as browser:
        try:
            found = reports.get(timeout=60)
        finally:
            browser.terminate()
    assert "error" not in found, found["error"]
    assert found["title"].startswith("API")
    assert found["roots"]  # sqrt(k / |A|) of the bonus has a root sign
    assert all(width > 10 and height > 10 for width, height in found["roots"])
    assert found["lines"] == 2  # of the bonus and of the policy, aligned
    assert found["raw"] is None  # no TeX is left as it was
    assert {"Home", "Options", "Theory", "Glossary", "Architecture", "API"} <= set(found["navigation"])
