"""Where votes are cast, one file per kind. A new one is a file and a line of EXECUTORS."""

from __future__ import annotations

from smoothcert.execution.base import Executor
from smoothcert.execution.ray import Ray
from smoothcert.execution.threads import Threads
from smoothcert.registry import Registry

__all__ = ["EXECUTORS", "REGISTRY", "Executor", "Ray", "Threads", "executor_named"]

EXECUTORS: dict[str, type[Executor]] = {"threads": Threads, "ray": Ray}
REGISTRY: Registry[Executor] = Registry("executor", "smoothcert.executors", EXECUTORS, Executor)  # type: ignore[type-abstract]
executor_named = REGISTRY.make
