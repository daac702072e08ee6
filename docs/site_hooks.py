"""What the documentation site (mkdocs.yml) needs beyond MkDocs: pages from the top of the repository, and formulas."""

import html
import posixpath
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "report-a-vulnerability.md",
}


def _links_on_site(text: str, source: str) -> str:
    """Links of a page (by its path in the repository) as they are on the site.

    A link to a file that is no page keeps its words only.
    """
    folder = posixpath.dirname(source)
    page_folder = posixpath.dirname(PAGES.get(source, posixpath.relpath(source, "docs")))

    def on_site(match: re.Match[str]) -> str:
        words, link, anchor = match["words"], match["link"], match["anchor"] or ""
        target = posixpath.normpath(posixpath.join(folder, link))
        page = PAGES.get(target) or (posixpath.relpath(target, "docs") if target.startswith("docs/") else None)
        if page is None:
            return words if (ROOT / target).exists() else match[0]
        return f"[{words}]({posixpath.relpath(page, page_folder or '.')}{anchor})"

    return re.sub(r"\[(?P<words>[^\]]*)\]\((?P<link>[^):#\s]+)(?P<anchor>#[^)]*)?\)", on_site, text)


def on_files(files: Files, config: Any) -> Files:
    """The README is the first page; the other pages of the top level join it."""
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=_links_on_site((ROOT / name).read_text(), name)))
    results = sorted((ROOT / "docs" / "results").glob("*.md"))
    titles = {path.name: path.read_text().partition("\n")[0].lstrip("# ") for path in results}
    listed = "\n".join(f"- [{title}]({name}) (`{name}`)" for name, title in titles.items())
    files.append(File.generated(config, "results/index.md", content=f"# All figures\n\n{listed}\n"))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return markdown if page.file.generated_by else _links_on_site(markdown, f"docs/{page.file.src_uri}")


def on_page_content(content: str, **_: Any) -> str:
    """Formulas become MathML, which browsers show without a script."""

    def formula(match: re.Match[str]) -> str:
        tex = html.unescape(match["tex"]).strip()
        display = "block" if match["open"] == r"\[" else "inline"
        try:
            mathml = convert(tex, display=display)
        except Exception as error:
            raise PluginError(f"a formula cannot be rendered: {tex}") from error
        left_over = re.search(r"<mi>(&|\\\w*)</mi>", mathml)  # what latex2mathml does not know it leaves as it is
        if left_over:
            raise PluginError(f"latex2mathml does not know {left_over[1]} in: {tex}")
        return re.sub(r"<mo[^>]*>(\||&#x0007C;)</mo>", '<mo stretchy="false" lspace="0" rspace="0">|</mo>', mathml)

    pattern = r'<(?P<tag>span|div) class="arithmatex">(?P<open>\\[(\[])(?P<tex>.*?)\\[)\]]</(?P=tag)>'
    return re.sub(pattern, formula, content, flags=re.DOTALL)
