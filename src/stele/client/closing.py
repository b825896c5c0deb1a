"""What is closed on the way out of a ``with``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """For ``with``."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything. Idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Releasing(ABC):
    """For ``with``, of what is held and goes on without its holder."""

    @abstractmethod
    def release(self) -> None:
        """Let go of it. Idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class AsyncClosing(ABC):
    """For ``async with``."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of everything. Idempotent."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
