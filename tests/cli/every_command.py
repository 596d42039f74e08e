"""Runs every command in turn in one process, as the console script would, and writes what came of each to a file."""

import json
import os
import signal
import sys
import threading
import traceback
import warnings
from pathlib import Path

import smoothcert.cli
from smoothcert.cli import console

MODEL = ("--model", "net/model.safetensors", "--sigma", "0.3")
QUICK = ("--limit", "3", "-n", "200", "--block", "50", "--select", "20")
COMMANDS: list[tuple[str, ...]] = [
    ("train", "--model", "mlp", "--sigma", "0.3", "--epochs", "1", "--limit", "200", "--out", "net"),
    ("certify", *MODEL, *QUICK, "--memory", "--out", "runs/a"),
    ("certify", *MODEL, *QUICK, "--alpha", "0.01", "--out", "runs/b"),
    ("predict", *MODEL, "--limit", "2"),
    ("predict", *MODEL, "--limit", "2", "--memory", "runs/a"),
    ("attack", "runs/a", "--limit", "1", "--budget", "100", "--votes", "100", "--beyond", "2"),
    ("report", "runs/a", "runs/b", "--out", "both"),
    ("explore", "runs/a"),
    ("serve", "runs/a", "--port", "0", "--json"),
    ("curve", "--dim", "4", "--norm", "inf", "--points", "2", "--out", "curves"),
    ("curve", "--dim", "4", "--noise", "laplace", "--norms", "1,2", "--p", "0.9", "--out", "curves"),
    ("recertify", "runs/b", "--alpha", "0.02", "--out", "runs/c"),
    *(("certify", *MODEL, *QUICK, "--shard", f"{part}/2", "--out", f"runs/part-{part}") for part in (1, 2)),
    ("merge", "runs/part-1", "runs/part-2", "--out", "runs/whole"),
    ("export", "runs/a", "--format", "cohen", "--out", "a.tsv"),
    ("export", "runs/a"),
    ("import", "a.tsv", "--sigma", "0.3", "--alpha", "0.001", "--n", "200", "--out", "log"),
    ("cite", "runs/a", "log"),
    *(("list", kind) for kind in ("laws", "methods", "recipes", "estimators", "stores", "attacks", "runtimes", "data")),
    ("list", "models"),
    ("reproduce", "--list"),
    ("certify", "--help"),
    ("--help",),
]
LONG: list[tuple[str, ...]] = [
    ("demo", "--limit", "1", "--estimate", "20", "--epochs", "1", "--out", "demo"),
    (
        *("search", "--model", "mlp", "--parameter", "beta=2", "--sigmas", "0.3", "--norms", "2,inf", "--limit", "2"),
        *("-n", "50", "--epochs", "1", "--train-limit", "100", "--out", "search"),
    ),
]


def status_of(arguments: tuple[str, ...]) -> int | str:
    """The exit status of a command, or its traceback."""
    sys.argv = ["smoothcert", *arguments]
    if arguments[0] in ("explore", "serve"):  # a user ends it by Ctrl-C
        threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        smoothcert.cli.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    except BaseException:
        return traceback.format_exc()
    return 0


if __name__ == "__main__":
    report, long = Path(sys.argv[1]), sys.argv[2] == "long"
    warnings.simplefilter("always")
    found = []
    for arguments in COMMANDS + LONG * long:
        print(f"$ smoothcert {' '.join(arguments)}", flush=True)
        found.append([" ".join(arguments), status_of(arguments)])
        console.output.file.flush()
    report.write_text(json.dumps(found))
