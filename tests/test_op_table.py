"""The table of ops has no holes, and docs/ops.md is up to date."""

from __future__ import annotations

import runpy
from pathlib import Path

from gradlib.op.declare import REGISTRY

PROGRAM = runpy.run_path(str(Path(__file__).parents[1] / "ci" / "op_table.py"))
ROWS = {name: PROGRAM["row"](op) for name, op in REGISTRY.items()}


def test_no_op_lacks_a_derivative_without_a_reason():
    assert PROGRAM["holes"](list(ROWS.values())) == []


def test_columns_say_what_an_op_has():
    softmax, exp, ctc = ROWS["softmax"], ROWS["exp"], ROWS["ctc_loss_op"]
    assert softmax["cuda"] == "forward" and softmax["batch"] == "same rank"
    assert ROWS["native_layer_norm"]["cuda"] == "forward, vjp"
    assert (
        exp["batch"] == "elementwise" and exp["node"] == "ExpBackward0" and exp["inplace"] == "yes"
    )
    assert ctc["batch"] == "loop" and ctc["cuda"] == ""
    assert ROWS["gt"]["note"] == "its values are bool" and ROWS["gt"]["vjp"] == "-"


def test_the_document_is_up_to_date():
    text = PROGRAM["DOCUMENT"].read_text()
    assert text == PROGRAM["document"](), "run: python ci/op_table.py --write"
