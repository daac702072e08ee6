"""The data sets of the comparison and its statistics."""

import hashlib
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
import pandas as pd
import pytest

from benchmarks.shared import datasets, ranking
from benchmarks.shared.vw import round_losses


@pytest.fixture(scope="module")
def builtin():
    return {d.did: d for d in datasets.builtin()}


def small(*features: float) -> datasets.Dataset:
    names = tuple(f"column {i}" for i in range(len(features)))
    return datasets.Dataset("small", "small", np.array([features]), np.array([1]), names)


def test_builtin_sets_have_labels_from_1_to_the_number_of_classes(builtin):
    assert {name: (d.rows, d.features, d.actions) for name, d in builtin.items()} == {
        "iris": (150, 4, 3),
        "wine": (178, 13, 3),
        "breast_cancer": (569, 30, 2),
        "digits": (1797, 64, 10),
    }
    assert all(set(d.y) == set(range(1, d.actions + 1)) for d in builtin.values())


def test_lines_leave_out_zeros_and_name_features_as_asked():
    dataset = small(1.5, 0, -2, 1e-7)
    assert datasets.to_vw(dataset, 0) == ["1 | f0:1.5 f2:-2 f3:1e-07"]
    assert datasets.to_vw(dataset, 0, "published") == ["1 | 0:1.5 2:-2 3:1e-07"]


def test_lines_give_vw_every_digit_of_a_float(builtin):
    values = [float(f.split(":")[1]) for line in datasets.to_vw(builtin["wine"], 0) for f in line.split()[2:]]
    assert set(np.array(values, np.float32)) == set(builtin["wine"].X[builtin["wine"].X != 0].astype(np.float32))


def test_a_permutation_changes_the_order_of_the_rows_only_and_is_the_seed_s(builtin):
    one, again, other = (datasets.to_vw(builtin["iris"], seed) for seed in ([0, 1], [0, 1], [0, 2]))
    assert one == again != other
    assert sorted(one) == sorted(other)


def test_columns_become_numbers_with_0_for_missing():
    nominal = pd.Series(pd.Categorical(["low", None, "high", "low"], categories=["high", "low"]))
    assert datasets._numbers(nominal).tolist() == [1, 0, 0, 1]
    assert datasets._numbers(pd.Series([True, False])).tolist() == [1, 0]
    assert datasets._numbers(pd.Series([2.5, np.nan])).tolist() == [2.5, 0]
    assert datasets._numbers(pd.Series([3, pd.NA], dtype="UInt8")).tolist() == [3, 0]


def test_an_openml_set_loads_from_the_cache_and_runs():
    if not os.environ.get(datasets.CACHE_VARIABLE) or not datasets.available():
        pytest.skip(f"{datasets.CACHE_VARIABLE} is not set, or holds no data")
    did = min(datasets.available())
    dataset = datasets.load(did)
    assert dataset.did == did
    assert dataset.X.shape == (dataset.rows, dataset.features)
    assert np.isfinite(dataset.X).all()
    assert set(dataset.y) == set(range(1, dataset.actions + 1))
    losses = round_losses(f"--cbify {dataset.actions} --cb_explore_adf", "\n".join(datasets.to_vw(dataset, 0)))
    assert len(losses) == dataset.rows
    assert set(losses) == {"0", "1"}


ARFF = b"""@relation tiny
@attribute size numeric
@attribute colour {red, green, blue}
@attribute note string
@attribute class {no, yes, never}
@data
1.5, blue, a, yes
?, ?, b, no
-2, green, c, yes
"""


def answers(url: str) -> dict[str, bytes]:
    """What a server of OpenML gives for a set with a missing value, an ignored column and a class without a row."""
    space = 'xmlns:oml="http://openml.org/openml"'
    columns = [("size", "numeric", ""), ("colour", "nominal", "red green blue"), ("note", "string", "")]
    features = "".join(
        f"<oml:feature><oml:index>{i}</oml:index><oml:name>{name}</oml:name><oml:data_type>{kind}</oml:data_type>"
        + "".join(f"<oml:nominal_value>{value}</oml:nominal_value>" for value in values.split())
        + f"<oml:is_target>{str(name == 'class').lower()}</oml:is_target>"
        f"<oml:is_ignore>{str(name == 'note').lower()}</oml:is_ignore>"
        "<oml:is_row_identifier>false</oml:is_row_identifier>"
        "<oml:number_of_missing_values>0</oml:number_of_missing_values></oml:feature>"
        for i, (name, kind, values) in enumerate([*columns, ("class", "nominal", "no yes never")])
    )
    description = (
        "<oml:id>7</oml:id><oml:name>tiny</oml:name><oml:version>1</oml:version><oml:description>tiny</oml:description>"
        f"<oml:format>ARFF</oml:format><oml:licence>Public</oml:licence><oml:url>{url}/tiny.arff</oml:url>"
        "<oml:file_id>7</oml:file_id><oml:default_target_attribute>class</oml:default_target_attribute>"
        "<oml:ignore_attribute>note</oml:ignore_attribute><oml:visibility>public</oml:visibility>"
        f"<oml:status>active</oml:status><oml:md5_checksum>{hashlib.md5(ARFF).hexdigest()}</oml:md5_checksum>"
    )
    return {
        "/data/7": f"<oml:data_set_description {space}>{description}</oml:data_set_description>".encode(),
        "/data/features/7": f"<oml:data_features {space}>{features}</oml:data_features>".encode(),
        "/data/qualities/7": f"<oml:data_qualities {space}><oml:quality><oml:name>NumberOfClasses</oml:name>"
        f"<oml:value>3.0</oml:value></oml:quality></oml:data_qualities>".encode(),
        "/tiny.arff": ARFF,
    }


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A server that answers as OpenML's, and an empty cache; the paths that it was asked for."""
    import openml

    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            body = answers(url).get(self.path)
            self.send_response(200 if body else 404)
            self.end_headers()
            self.wfile.write(body or b"")

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            print(format % args)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        url = f"http://127.0.0.1:{http.server_port}"
        monkeypatch.setattr(openml.config, "server", url)
        monkeypatch.setenv(datasets.CACHE_VARIABLE, str(tmp_path))
        Thread(target=http.serve_forever, daemon=True).start()
        yield asked
        http.shutdown()


def test_a_set_that_is_not_in_the_cache_comes_from_the_server_once(server):
    assert datasets.available() == []
    dataset = datasets.load(7)
    assert dataset.feature_names == ("size", "colour")
    assert dataset.X.tolist() == [[1.5, 2], [0, 0], [-2, 1]]
    assert dataset.y.tolist() == [2, 1, 2]
    assert dataset.actions == 2
    assert datasets.available() == [7]
    server.clear()
    datasets.load(7)
    assert server == []


def test_ranks_share_ties_and_comparisons_count_sets():
    losses = pd.DataFrame({"a": [0.1, 0.2, 0.3], "b": [0.1, 0.3, 0.4], "c": [0.5, 0.1, 0.6]})
    assert ranking.mean_ranks(losses).to_dict() == pytest.approx({"a": 4.5 / 3, "b": 6.5 / 3, "c": 7 / 3})
    versus = ranking.pairs(losses).set_index(["first", "second"])[["better", "equal", "worse"]]
    assert versus.loc["a", "b"].tolist() == [2, 1, 0]
    assert versus.loc["a", "c"].tolist() == [2, 0, 1]
    assert ranking.pairs(losses.assign(b=losses["a"])).loc[0, "p"] == 1


def test_holm_equals_published_numbers():
    # As R's p.adjust gives them.
    np.testing.assert_allclose(ranking.holm(np.array([0.01, 0.04, 0.03, 0.005])), [0.03, 0.06, 0.06, 0.02])
