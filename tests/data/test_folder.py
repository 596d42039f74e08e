"""Folders of images."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from smoothcert.data import ImageFolder, load
from smoothcert.data.classes import imagenet
from smoothcert.data.folder import HASHED_END
from smoothcert.errors import DataError, MissingExtra, SettingError

Image = pytest.importorskip("PIL.Image")


def save(path: Path, pixels: np.ndarray) -> None:
    """An image file of these pixels, (height, width) or (height, width, 3)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def pixels_of(seed: int, height: int = 4, width: int = 6) -> np.ndarray:
    """Random colours."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two images of cats, one of a dog, and what should be passed over."""
    save(tmp_path / "pets" / "dog" / "a.BMP", pixels_of(0))
    save(tmp_path / "pets" / "cat" / "b.png", pixels_of(1))
    save(tmp_path / "pets" / "cat" / "a.png", pixels_of(2))
    save(tmp_path / "pets" / "cat" / ".hidden.png", pixels_of(3))
    save(tmp_path / "pets" / ".hidden" / "a.png", pixels_of(4))
    (tmp_path / "pets" / "cat" / "notes.txt").write_text("not an image")
    return tmp_path / "pets"


def test_images_come_by_class_then_by_name(root: Path) -> None:
    for name in (str(root), f"folder:path={root}"):
        data = load(name)
        assert (data.name, len(data), data.shape, data.classes, data.grid) == ("pets", 3, (3, 4, 6), 2, 1 / 255)
        assert data.truths([2, 1, 0]) == [1, 0, 0]
        expected = np.stack([pixels_of(seed).transpose(2, 0, 1) for seed in (2, 1, 0)])
        assert np.array_equal(data.inputs([0, 1, 2]), expected.astype(np.float32) / np.float32(255))


def test_gray(root: Path) -> None:
    save(root / "cat" / "0.png", pixels_of(0)[:, :, 0])
    data = ImageFolder(root, gray=True)
    assert data.shape == (1, 4, 6)
    assert np.array_equal(np.rint(data.inputs([0])[0, 0] * 255), pixels_of(0)[:, :, 0])


def test_a_gray_image_becomes_rgb(root: Path) -> None:
    save(root / "cat" / "0.png", pixels_of(0)[:, :, 0])
    first = ImageFolder(root).inputs([0])[0]
    assert np.array_equal(first[0], first[1])
    assert np.array_equal(first[0], first[2])


def test_an_image_of_its_size_is_only_cropped_at_the_centre(root: Path) -> None:
    data = load(str(root), size=4)
    assert data.shape == (3, 4, 4)
    assert np.array_equal(np.rint(data.inputs([2])[0] * 255), pixels_of(0)[:, 1:5].transpose(2, 0, 1))


@pytest.mark.parametrize(("height", "width"), [(9, 5), (5, 9), (5, 5), (2, 3), (1, 40), (33, 31)])
def test_every_size_is_resized_onto_the_grid(tmp_path: Path, height: int, width: int) -> None:
    save(tmp_path / "a" / "a.png", pixels_of(0, height, width))
    data = ImageFolder(tmp_path, size=4)
    levels = data.inputs([0]).astype(float) * 255
    assert levels.shape == (1, 3, 4, 4)
    assert np.abs(levels - np.rint(levels)).max() < 1e-4


def test_one_colour_stays_that_colour(tmp_path: Path) -> None:
    save(tmp_path / "a" / "a.png", np.full((17, 11, 3), 77, dtype=np.uint8))
    assert np.unique(ImageFolder(tmp_path, size=5).inputs([0])).tolist() == [float(np.float32(77) / np.float32(255))]


def test_different_sizes_need_a_size(root: Path) -> None:
    save(root / "dog" / "b.png", pixels_of(5, 7, 8))
    with pytest.raises(DataError, match=r"b\.png is 8×7 pixels, the first image is 6×4; .* give size="):
        ImageFolder(root).inputs([3])
    assert ImageFolder(root, size=4).inputs([0, 3]).shape == (2, 3, 4, 4)


def test_the_fingerprint_follows_the_content(root: Path) -> None:
    first = ImageFolder(root).fingerprint()
    assert first == ImageFolder(root).fingerprint()
    seen = {first, ImageFolder(root, size=4).fingerprint(), ImageFolder(root, gray=True).fingerprint()}
    save(root / "dog" / "a.BMP", pixels_of(9))
    seen.add(ImageFolder(root).fingerprint())
    (root / "dog" / "a.BMP").rename(root / "cat" / "c.BMP")
    seen.add(ImageFolder(root).fingerprint())
    assert len(seen) == 5


def test_the_fingerprint_does_not_depend_on_where_the_folder_is(root: Path) -> None:
    before = ImageFolder(root).fingerprint()
    assert ImageFolder(root.rename(root.parent / "moved")).fingerprint() == before


@pytest.mark.parametrize("suffix", [".png", ".bmp"])
def test_one_pixel_changes_the_fingerprint_of_a_long_file(tmp_path: Path, suffix: str) -> None:
    pixels = pixels_of(0, 300, 300)
    path = tmp_path / "a" / f"a{suffix}"
    save(path, pixels)
    assert path.stat().st_size > 2 * HASHED_END
    before = ImageFolder(tmp_path).fingerprint()
    pixels[150, 150, 1] ^= 1
    save(path, pixels)
    assert ImageFolder(tmp_path).fingerprint() != before


def test_an_image_lost_on_the_way_is_named(root: Path) -> None:
    data = ImageFolder(root)
    (root / "cat" / "b.png").unlink()
    with pytest.raises(DataError, match=r"b\.png cannot be read"):
        data.inputs([1])
    with pytest.raises(DataError, match=r"b\.png cannot be read"):
        data.fingerprint()


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_a_truncated_image_is_named(root: Path, suffix: str) -> None:
    path = root / "dog" / f"b{suffix}"
    save(path, pixels_of(0, 64, 64))
    path.write_bytes(path.read_bytes()[:-1500])
    with pytest.raises(DataError, match=f"b\\{suffix} cannot be read as an image.*replace the file"):
        ImageFolder(root, size=4).inputs([3])


def test_what_is_no_image_is_named(root: Path) -> None:
    (root / "cat" / "0.png").write_text("hello")
    with pytest.raises(DataError, match=r"0\.png cannot be read as an image"):
        ImageFolder(root)


def test_sixteen_bits_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "a" / "a.png", np.full((4, 4), 40_000, dtype=np.uint16))
    with pytest.raises(DataError, match="more than 8 bits per pixel"):
        ImageFolder(tmp_path)


def test_folders_without_images_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no folder"):
        load(f"folder:path={tmp_path / 'nothing'}")
    with pytest.raises(DataError, match="has 0 class folders but no image in them, and none of its own"):
        ImageFolder(tmp_path)
    (tmp_path / "a").mkdir()
    with pytest.raises(DataError, match="has 1 class folders but no image in them"):
        ImageFolder(tmp_path)


def test_indices_and_sizes_outside_are_refused(root: Path) -> None:
    with pytest.raises(DataError, match="no input 3"):
        ImageFolder(root).truths([3])
    with pytest.raises(SettingError, match="size is 0"):
        ImageFolder(root, size=0)


def test_without_pillow_the_extra_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(MissingExtra, match=r"pip install 'smoothcert\[images\]'"):
        ImageFolder(root)


def folders(root: Path, *names: str) -> Path:
    """A class folder of each name with one image in it."""
    for seed, name in enumerate(names):
        save(root / name / "a.png", pixels_of(seed))
    return root


def test_numbers_are_their_classes(tmp_path: Path) -> None:
    data = ImageFolder(folders(tmp_path, *map(str, range(12))))
    assert (data.classes, data.truths(range(12))) == (12, list(range(12)))
    assert np.array_equal(np.rint(data.inputs([10])[0] * 255), pixels_of(10).transpose(2, 0, 1))
    some = ImageFolder(folders(tmp_path / "some", "07", "3"))
    assert (some.classes, some.truths([0, 1])) == (8, [3, 7])
    assert ImageFolder(tmp_path / "some", classes="sorted").truths([0, 1]) == [0, 1]


def test_wnids_have_the_order_of_imagenet(tmp_path: Path) -> None:
    names = ["n15075141", "n02106662", "n02108422", "n01440764", "n02992529"]
    data = ImageFolder(folders(tmp_path, *names))
    assert (data.classes, data.truths(range(5))) == (1000, [0, 235, 243, 487, 999])
    by_name = ImageFolder(tmp_path, classes="sorted")
    assert (by_name.classes, by_name.truths(range(5))) == (5, [0, 1, 2, 3, 4])
    folders(tmp_path, "n00000001")
    assert ImageFolder(tmp_path).classes == 6  # not ImageNet: by name
    with pytest.raises(DataError, match=r"n00000001/a.png has no class: ImageNet names neither"):
        ImageFolder(tmp_path, classes="imagenet")


WORDNET = {
    "n01440764": "tench",
    "n01443537": "goldfish",
    "n01484850": "great white shark",
    "n01514668": "cock",
    "n01514859": "hen",
    "n01608432": "kite",
    "n01882714": "koala",
    "n02012849": "crane (bird)",
    "n02056570": "king penguin",
    "n02085620": "Chihuahua",
    "n02088364": "beagle",
    "n02099601": "golden retriever",
    "n02105162": "malinois",
    "n02106662": "German shepherd",
    "n02108422": "bull mastiff",
    "n02110341": "dalmatian",
    "n02113186": "Cardigan (dog)",
    "n02123045": "tabby",
    "n02129165": "lion",
    "n02129604": "tiger",
    "n02391049": "zebra",
    "n02504458": "African elephant",
    "n02510455": "giant panda",
    "n02690373": "airliner",
    "n02701002": "ambulance",
    "n02963159": "cardigan (garment)",
    "n02979186": "cassette player",
    "n03000684": "chain saw",
    "n03028079": "church",
    "n03126707": "crane (machine)",
    "n03394916": "French horn",
    "n03417042": "garbage truck",
    "n03425413": "gas pump",
    "n03445777": "golf ball",
    "n03710637": "maillot (tights)",
    "n03710721": "maillot (tank suit)",
    "n03888257": "parachute",
    "n04285008": "sports car",
    "n07753592": "banana",
    "n15075141": "toilet tissue",
}


def test_the_classes_of_imagenet_are_called_by_words(tmp_path: Path) -> None:
    """Forty of them as WordNet has them, and no two alike."""
    data = ImageFolder(folders(tmp_path, *list(WORDNET)[:2]))
    assert len({name.lower() for name in data.class_names}) == data.classes == 1000
    assert [data.class_names[truth] for truth in data.truths([0, 1])] == ["tench", "goldfish"]
    assert imagenet().items() >= WORDNET.items()
    assert ImageFolder(tmp_path, classes="sorted").class_names == ("n01440764", "n01443537")


def test_a_file_gives_the_order_of_the_classes(root: Path, tmp_path: Path) -> None:
    order = tmp_path / "order.txt"
    order.write_text("bird\ndog\n\ncat\n")
    data = load(str(root), classes=str(order))
    assert (data.classes, data.truths([0, 1, 2])) == (3, [1, 2, 2])
    assert data.fingerprint() != load(str(root)).fingerprint()
    for text, problem in [("dog", "cat/a.png has no class: order.txt"), ("dog\ndog", "a name twice"), ("", "no name")]:
        order.write_text(text)
        with pytest.raises(DataError, match=problem):
            load(str(root), classes=str(order))
    with pytest.raises(DataError, match="'sortd' cannot be read.*allowed: numbers"):
        load(str(root), classes="sortd")


def test_a_file_gives_each_image_its_class(root: Path, tmp_path: Path) -> None:
    given = tmp_path / "labels.txt"
    given.write_text("a.BMP 4\ncat,7\ncat/b.png\t2\n")
    data = load(str(root), classes=str(given))
    assert (data.classes, data.truths([0, 1, 2])) == (8, [2, 4, 7])
    assert np.array_equal(np.rint(data.inputs([2])[0] * 255), pixels_of(2).transpose(2, 0, 1))


def test_a_flat_folder_has_no_truths_unless_a_file_gives_them(root: Path, tmp_path: Path) -> None:
    data = load(str(root / "cat"))
    assert (len(data), data.classes, data.truths([0, 1])) == (2, None, [None, None])
    given = tmp_path / "labels.txt"
    given.write_text("b.png 0\na.png 5")
    labelled = load(str(root / "cat"), classes=str(given))
    assert (labelled.classes, labelled.truths([0, 1])) == (6, [0, 5])
    assert np.array_equal(labelled.inputs([0, 1]), data.inputs([1, 0]))
    assert labelled.fingerprint() != data.fingerprint()


def test_one_image_is_a_data_set(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root / "cat")
    for name in ("a.png", str(root / "cat" / "a.png"), "folder:path=a.png"):
        data = load(name)
        assert (data.name, len(data), data.classes, data.truths([0])) == ("a.png", 1, None, [None])
        assert np.array_equal(np.rint(data.inputs([0])[0] * 255), pixels_of(2).transpose(2, 0, 1))


def test_images_beside_class_folders_are_refused(root: Path) -> None:
    save(root / "a.png", pixels_of(0))
    with pytest.raises(DataError, match="holds 1 images beside class folders with 3"):
        ImageFolder(root)


def test_a_crop_is_the_centre_of_what_was_resized(root: Path) -> None:
    whole, cut = load(str(root), size=8), load(str(root), size=8, crop=4)
    assert load(f"folder:path={root},size=8,crop=4").fingerprint() == cut.fingerprint()
    assert cut.shape == (3, 4, 4)
    assert np.array_equal(cut.inputs([0, 1, 2]), whole.inputs([0, 1, 2])[:, :, 2:6, 2:6])
    assert len({whole.fingerprint(), cut.fingerprint(), load(str(root), size=4).fingerprint()}) == 3
    for size, crop in [(None, 4), (4, 5), (4, 0)]:
        with pytest.raises(SettingError, match=f"crop is {crop} and size {size}"):
            load(str(root), size=size, crop=crop)
