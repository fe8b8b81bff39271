"""The steps of all declarations, and the clients of the libraries that they need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from typing import Final

from broker_app.reflex.chain import ChainStep, InBrokerServiceStep, InBrokerStep, ProcessStep, UnusableStep
from broker_app.reflex.declaration import Declaration
from broker_app.reflex.libraries import library_loader
from broker_app.reflex.libraries.library_client import LibraryClient
from broker_app.reflex.libraries.process import Place
from broker_app.reflex.shipped import table
from broker_app.reflex.shipped.context import Context
from broker_app.reflex.statistics import DeclarationStatistics
from broker_app.reflex.stored_trials import MakeClient, steps_on_trial

#: seconds between two looks whether a library that is not needed any more is still called
_RETIRE_S: Final = 0.1


class StepRegistry:
    """Makes steps of declarations. Those of unchanged ones are kept, with their state."""

    def __init__(
        self,
        context: Context,
        directory: str,
        memory_bytes: int,
        changed: Callable[[LibraryClient], None],
    ) -> None:
        self._context = context
        self._spawner = ThreadPoolExecutor(1, thread_name_prefix="reflex")
        self._place = Place(self._spawner, directory, memory_bytes)
        self._changed = changed
        #: by name, enabled ones only
        self.steps: dict[str, ChainStep] = {}
        self.statistics: dict[str, DeclarationStatistics] = {}
        self.clients: dict[str, LibraryClient] = {}
        #: libraries that are not needed any more, until their processes have ended
        self._retiring: dict[LibraryClient, asyncio.Task[None]] = {}

    def use(self, declarations: Sequence[Declaration]) -> None:
        """Have a step for each enabled declaration, and a process for each library that is needed."""
        former, self.steps = self.steps, {}
        known = self.statistics
        self.statistics = {one.name: known.get(one.name) or self._new_statistics() for one in declarations}
        for declaration in declarations:
            if declaration.enabled:
                step = former.get(declaration.name)
                if step is None or step.declaration != declaration or isinstance(step, UnusableStep):
                    step = self._make(declaration, self.statistics[declaration.name], self._client)
                self.steps[declaration.name] = step
        self._keep_clients()

    def _new_statistics(self) -> DeclarationStatistics:
        return DeclarationStatistics(self._context.events, self._context.clock)

    def on_trial(self, declarations: Sequence[Declaration]) -> AbstractAsyncContextManager[list[ChainStep]]:
        """The steps of declarations that need not be used: what they do has no effect on those that are."""

        def make(declaration: Declaration, client_of: MakeClient) -> ChainStep:
            return self._make(declaration, self._new_statistics(), client_of)

        return steps_on_trial(
            declarations, make, lambda library: LibraryClient(library, self._place, lambda client: None)
        )

    def _make(
        self, declaration: Declaration, statistics: DeclarationStatistics, client_of: MakeClient
    ) -> ChainStep:
        fault = table.fault(declaration.kind, declaration.library, declaration.function, declaration.options)
        if fault is not None:
            return UnusableStep(declaration, statistics, f"{fault[0]}: {fault[1]}")
        shipped = table.find(declaration.library, declaration.function)
        if shipped is None:
            client = client_of(library_loader.canonical(declaration.library))
            return ProcessStep(declaration, statistics, client)
        if shipped.make is None:
            return InBrokerServiceStep(declaration, statistics)
        return InBrokerStep(declaration, statistics, shipped.make(declaration, self._context))

    def _client(self, library: str) -> LibraryClient:
        client = self.clients.get(library)
        if client is None:
            client = self.clients[library] = LibraryClient(library, self._place, self._changed)
        return client

    def _keep_clients(self) -> None:
        numbers: dict[LibraryClient, set[int]] = {client: set() for client in self.clients.values()}
        for step in self.steps.values():
            if isinstance(step, ProcessStep):
                numbers[step.client].add(step.number)
        for client, wanted in numbers.items():
            if wanted:
                client.keep(wanted)
            else:
                del self.clients[client.name]
                retiring = self._retire(client)
                self._retiring[client] = asyncio.create_task(retiring, name=f"end of library {client.name}")

    async def _retire(self, client: LibraryClient) -> None:
        """End a library when the chains that had begun before have ended."""
        while not client.is_idle:
            await asyncio.sleep(_RETIRE_S)
        await client.stop()
        del self._retiring[client]

    async def stop(self) -> None:
        """End all processes."""
        retiring = dict(self._retiring)
        for task in retiring.values():
            task.cancel()
        await asyncio.gather(*retiring.values(), return_exceptions=True)
        await asyncio.gather(*(client.stop() for client in (*retiring, *self.clients.values())))
        self._spawner.shutdown(wait=False)
