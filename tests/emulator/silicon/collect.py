"""Collects what the GPU answers to every probe: `python3 -m tests.emulator.silicon.collect FOLDER [--raw RAW] [--only GROUP]...`

Each group of probes runs in its own process, and a probe that fails or hangs is named in device.json and costs no other.
"""

import argparse
import datetime
import hashlib
import importlib
import json
import pathlib
import subprocess
import sys
import traceback

import numpy as np

from tests.emulator.silicon.probe import Probe

GROUPS = (
    "maps", "elementwise", "warps", "barriers", "matrices", "clusters", "memory", "tiles", "im2col", "products", "tables",
    "warp_products", "sweeps",
)  # fmt: skip
SECONDS = 120  # for one process; a whole group takes a few


def probes(group: str) -> list[Probe]:
    return importlib.import_module(f"tests.emulator.silicon.{group}").probes()


def kept(probe: Probe, results: dict[str, np.ndarray], raw: pathlib.Path | None) -> dict[str, np.ndarray]:
    """What is stored of a probe: everything, or of a sweep a digest and every 4096th word."""
    if not probe.whole:
        return results
    found = {}
    for name, array in results.items():
        found[name + ".sha256"] = np.frombuffer(hashlib.sha256(array.tobytes()).digest(), np.uint8)
        found[name + ".sampled"] = array[::4096].copy()
        if raw is not None:
            np.save(raw / f"{probe.name}.npy", array)
    return found


def run_group(group: str, folder: pathlib.Path, raw: pathlib.Path | None, skip: int) -> None:
    """Run a group from its `skip`-th probe on; writes one file a probe, `NAME.npz` or `NAME.error`."""
    from tests.emulator.silicon.device import Device, encode

    device = Device()
    (folder / "description").write_text(json.dumps(device.description()))
    if group == "maps":
        tensor = int(device.upload(np.zeros(1 << 20, np.uint8)))
        for number, (name, tile) in enumerate(importlib.import_module("tests.emulator.silicon.maps").maps().items()):
            try:
                image = np.frombuffer(encode(tile, tensor), np.uint64).copy()
                image[0] -= np.uint64(tensor)  # kept relative to the tensor
                np.savez(folder / f"{number:03d}.npz", **{name: image})
            except Exception:
                (folder / f"{number:03d}.error").write_text(f"{name}: {traceback.format_exc(limit=0)}")
        return
    for number, probe in list(enumerate(probes(group)))[skip:]:
        started = folder / f"{number:03d}.started"
        started.write_text(probe.name)
        try:
            found = kept(probe, device.run(probe), raw)
            np.savez(folder / f"{number:03d}.npz", **{f"{probe.name}/{name}": array for name, array in found.items()})
        except Exception as error:
            (folder / f"{number:03d}.error").write_text(f"{probe.name}: {error!r}")
            sys.exit(3)  # a fault spoils the context: the rest runs in a new process


def collect_group(group: str, folder: pathlib.Path, raw: pathlib.Path | None) -> tuple[dict[str, np.ndarray], list[str], dict]:
    """Drive processes until every probe of the group has an outcome; its results, its errors, the device."""
    work = folder / f"work_{group}"
    work.mkdir(parents=True)
    total = 1 if group == "maps" else len(probes(group))
    skip = 0
    while skip < total:
        command = [sys.executable, "-m", "tests.emulator.silicon.collect", str(work), "--group", group, "--skip", str(skip)]
        command += ["--raw", str(raw)] if raw else []
        trouble = ""
        try:
            done = subprocess.run(command, timeout=SECONDS, capture_output=True, text=True)
            if done.returncode == 0:
                break
            trouble = done.stderr.strip()[-500:]
        except subprocess.TimeoutExpired:
            trouble = f"no answer in {SECONDS} s"
        begun = [int(p.stem) for p in work.glob("*.started")]
        last = max(begun, default=skip)
        if not (work / f"{last:03d}.error").exists() and not (work / f"{last:03d}.npz").exists():
            name = (work / f"{last:03d}.started").read_text() if begun else group
            (work / f"{last:03d}.error").write_text(f"{name}: {trouble}")
        skip = max(last, skip) + 1
    results: dict[str, np.ndarray] = {}
    for path in sorted(work.glob("*.npz")):
        results |= dict(np.load(path))
    errors = [path.read_text() for path in sorted(work.glob("*.error"))]
    description = json.loads((work / "description").read_text()) if (work / "description").exists() else {}
    for path in work.iterdir():
        path.unlink()
    work.rmdir()
    return results, errors, description


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--raw", type=pathlib.Path, help="also write the sweeps whole, here (1.5 GB)")
    parser.add_argument("--only", action="append", choices=GROUPS, help="collect this group alone (repeatable)")
    parser.add_argument("--group", help=argparse.SUPPRESS)
    parser.add_argument("--skip", type=int, default=0, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.group:
        run_group(chosen.group, chosen.folder, chosen.raw, chosen.skip)
        return
    chosen.folder.mkdir(parents=True, exist_ok=True)
    if chosen.raw:
        chosen.raw.mkdir(parents=True, exist_ok=True)
    record_path = chosen.folder / "device.json"
    record = json.loads(record_path.read_text()) if record_path.exists() else {"probes": {}, "errors": {}}
    for group in chosen.only or GROUPS:
        results, errors, description = collect_group(group, chosen.folder, chosen.raw)
        np.savez_compressed(chosen.folder / f"{group}.npz", **results)
        record |= description | {"date": datetime.date.today().isoformat()}
        record["probes"][group] = {} if group == "maps" else {p.name: p.fingerprint for p in probes(group)}
        record["errors"][group] = errors
        print(f"{group}: {len(results)} results, {len(errors)} errors", *errors, sep="\n  ", flush=True)
        record_path.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
