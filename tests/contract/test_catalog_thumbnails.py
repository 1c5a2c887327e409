"""A content is found in the slices in whose packs its thumbnail lies."""

from __future__ import annotations

from dataclasses import replace

from tests.support.catalogs import embed_slice, make_root, picture, plan_slice

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import ImageState


def test_a_content_is_found_in_the_slices_of_its_living_pictures(catalog: Catalog) -> None:
    _, root = make_root(catalog)
    _, other_root = make_root(catalog, "other", "/other")
    content = "ab" * 32
    images = [picture(root, "a.jpg", hash=content), picture(root, "b.jpg"), picture(root, "copy.jpg", hash=content)]
    elsewhere = [picture(other_root, "c.jpg", hash=content)]
    catalog.add_images([*images, *elsewhere])
    assert catalog.slices_of_content(content) == []
    first, second = embed_slice(catalog, images), plan_slice(catalog, elsewhere)
    both = sorted((record.corpus_id, record.fingerprint) for record in (first, second))
    assert catalog.slices_of_content(content) == both  # each once, however many copies it holds
    assert catalog.slices_of_content("cd" * 32) == []
    gone = catalog.images([elsewhere[0].image_id])[elsewhere[0].image_id]
    catalog.update_images([replace(gone, state=ImageState.GONE)])
    assert catalog.slices_of_content(content) == [(first.corpus_id, first.fingerprint)]
