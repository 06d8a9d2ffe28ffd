"""What the package is called; typed_consumer.py is what its users' types are checked by."""

from importlib.metadata import requires

from evalkit.cli import main
from evalkit.core.resources import own_version


def test_the_distribution_has_a_name_of_its_own(capsys):
    assert any(one.startswith("xllamacpp") for one in requires("evalkit-judge") or ())
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"evalkit {own_version()}\n"
    assert own_version() is not None
