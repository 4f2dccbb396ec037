"""Every model of the catalogue can be loaded, fits where it is meant to go, and names others that exist."""

from dataclasses import replace

import pytest

from headrace.catalogue.catalogue import FOLDER, KnownModel, known_models
from headrace.engine.checkpoints.layout.model_shape import HEAD
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.planning.deployment import Deployment, parse_devices
from headrace.planning.device_profile import PROFILES, list_profiles
from headrace.planning.footprint import GRID_BYTES, list_footprints
from headrace.supervisor.files.pull import HUB_ID
from headrace.supervisor.model_source import BUNDLED

NAMED_SIZES = {
    "70b": 70.5,
    "32b": 32.7,
    "8b": 8.1,
    "7b": 7.4,
    "3b": 3.2,
    "1.1b": 1.1,
    "1b": 1.24,
    "0.6b": 0.6,
    "mini": 3.8,
}
"""Billions of parameters that the names stand for."""


def models() -> list[KnownModel]:
    return list(known_models().values())


def test_there_are_thirteen_with_a_shape_each() -> None:
    assert len(models()) == 13
    assert {path.name for path in (FOLDER / "configs").iterdir()} == set(known_models())


@pytest.mark.parametrize("model", models(), ids=lambda model: model.name)
def test_a_model_has_the_size_of_its_name_and_fits_where_it_is_meant_to_go(model: KnownModel) -> None:
    device, count = parse_devices(model.device, list_profiles(PROFILES))
    (footprint,) = list_footprints(read_model_config(model.shape_folder), device.kind)
    billions = footprint.shape.parameter_count / 1e9
    assert billions == pytest.approx(NAMED_SIZES[model.name.rpartition("-")[2]], rel=0.05)
    assert Deployment(footprint, device, count).request_count(2048) >= 8


@pytest.mark.parametrize("model", models(), ids=lambda model: model.name)
def test_a_model_names_others_of_the_catalogue(model: KnownModel) -> None:
    assert HUB_ID.fullmatch(model.source)
    assert model.name not in BUNDLED
    sizes = {other.name: read_model_config(other.shape_folder).hidden_size for other in models()}
    for other in (model.draft, model.fallback):
        assert other is None or sizes[other] < sizes[model.name] or other == "mistral-7b"


@pytest.mark.parametrize("model", [each for each in models() if each.draft], ids=lambda model: model.name)
def test_a_draft_has_the_vocabulary_of_its_model(model: KnownModel) -> None:
    assert model.draft is not None
    draft = known_models()[model.draft]
    sizes = [read_model_config(each.shape_folder).vocabulary_size for each in (model, draft)]
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("model", models(), ids=lambda model: model.name)
def test_a_model_says_how_large_it_is(model: KnownModel) -> None:
    """A pull takes the codes, and for each group two bytes of its scale and a code as its zero point."""
    (held,) = list_footprints(read_model_config(model.shape_folder), "cuda")
    # A card rounds the head, which files have as it is.
    footprint = replace(held, packings={name: each for name, each in held.packings.items() if name != HEAD})
    assert model.parameter_count == pytest.approx(footprint.shape.parameter_count, rel=0.005)
    products = footprint.shape.products
    scales = sum(
        product.copies * module[1] * -(-module[2] // packing.group_size) * (GRID_BYTES["cuda"] - 2 - packing.bits / 8)
        for product in products
        for module in product.modules
        if (packing := footprint.packings.get(module[0]))
    )
    assert model.download_bytes == pytest.approx(footprint.weight_bytes - scales, rel=0.005)
    assert model.license
