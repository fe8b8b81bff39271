"""Stock prices at every site of a cluster, written at the master: the sample ex_rep_chan of Berkeley DB.

    python docs/examples/ex_rep_chan.py --url stomp://b1:61613 --login app --passcode …

Start one at each site, that of the master first. Each keeps a copy of all prices: `print` reads it, `get`
asks the master, `put` has the master write. The master sends each change to the other sites.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys

import mom_client
from mom_client.channels import MASTER, Channel, ChannelError, Environment, ResponseChannel

HELP = """print, or an empty line   show the prices as this site has them
get KEY...                ask the master for prices
put KEY PRICE...          have the master write prices, all or none
put_sync KEY PRICE...     the same, and wait until this site has them
help, ?                   show this
exit, quit, q             end"""
#: parts of a request, its command included
MOST_PARTS = 33
#: seconds in which a change must have come here
SYNC_S = 5.0
OK, FAILED = b"0", b"1"


class Prices:
    """The copy of one site. `version` counts the changes that it has."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.version = 0
        self._changed = asyncio.Condition()

    async def apply(self, version: int, pairs: list[bytes]) -> None:
        """Write a change, all of it."""
        async with self._changed:
            self.values.update(zip(pairs[::2], pairs[1::2], strict=True))
            self.version = max(self.version, version)
            self._changed.notify_all()

    async def wait_for(self, version: int) -> None:
        """Wait until a change is here. Raises TimeoutError."""
        async with asyncio.timeout(SYNC_S), self._changed:
            await self._changed.wait_for(lambda: self.version >= version)


class Site:
    """The application at one site: what it answers as the master, and what it asks the master."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self.prices = Prices()
        #: the other sites that have asked for a copy, while this one is the master
        self._copies: dict[str, Channel] = {}

    async def start(self) -> None:
        """Serve this site, and get a copy of the prices of the master."""
        await self._env.repmgr_msg_dispatch(self.operation_dispatch)
        await self._env.repmgr_start()
        await self._copy()

    async def follow(self) -> None:
        """Ask for what has changed now and then: another site may have become the master."""
        while True:
            await asyncio.sleep(SYNC_S)
            try:
                await self._copy()
            except ChannelError as error:
                print(f"the master does not answer: {error}", file=sys.stderr)

    async def _copy(self) -> None:
        status, version, *pairs = await self._ask([b"copy"])
        if status == OK and int(version) > self.prices.version:
            await self.prices.apply(int(version), pairs)

    async def operation_dispatch(
        self, channel: ResponseChannel, parts: list[bytes], need_response: bool
    ) -> None:
        """Handle what another site, or this one, has sent."""
        command, *rest = parts
        if command == b"changed":
            await self.prices.apply(int(rest[0]), rest[1:])
        elif not need_response:
            print(f"{channel.site} has sent {command!r} without a request", file=sys.stderr)
        elif command == b"copy":
            if channel.site not in self._copies:
                self._copies[channel.site] = await self._env.repmgr_channel(channel.site)
            pairs = [part for pair in self.prices.values.items() for part in pair]
            await channel.send_msg([OK, b"%d" % self.prices.version, *pairs])
        elif command == b"get":
            missing = [key for key in rest if key not in self.prices.values]
            if missing:
                await channel.send_msg([FAILED, b"there is no price of " + b", ".join(missing)])
            else:
                await channel.send_msg([OK, *(self.prices.values[key] for key in rest)])
        elif command == b"put":
            await channel.send_msg([OK, b"%d" % await self._write(rest)])
        else:
            await channel.send_msg([FAILED, b"unknown command " + command])

    async def _write(self, pairs: list[bytes]) -> int:
        """Write as the master, and send the change to all copies; returns its version."""
        version = self.prices.version + 1
        await self.prices.apply(version, pairs)
        for site, channel in list(self._copies.items()):
            try:
                await channel.send_msg([b"changed", b"%d" % version, *pairs])
            except ChannelError as error:
                print(f"{site} will ask for a copy when it is back: {error}", file=sys.stderr)
                del self._copies[site]
                await channel.close()
        return version

    async def _ask(self, parts: list[bytes]) -> list[bytes]:
        """Ask the master."""
        channel = await self._env.repmgr_channel(MASTER)
        try:
            answer = await channel.send_request(parts, multiple=True)
            assert isinstance(answer, list)
            return answer
        finally:
            await channel.close()

    async def do(self, line: str) -> list[str]:
        """Carry out a command of the user; returns what is to be shown. Raises EOFError at the end."""
        command, *words = shlex.split(line) or ["print"]
        if command in ("exit", "quit", "q"):
            raise EOFError
        if command in ("help", "?"):
            return HELP.splitlines()
        if command == "print":
            return [f"{key.decode()}\t{value.decode()}" for key, value in sorted(self.prices.values.items())]
        if command not in ("get", "put", "put_sync"):
            return [f"unknown command {command!r}; help shows all"]
        if len(words) >= MOST_PARTS:
            return [f"at most {MOST_PARTS - 1} words are allowed after the command"]
        return await self._at_master(command, words)

    async def _at_master(self, command: str, words: list[str]) -> list[str]:
        shown = []
        if command != "get" and len(words) % 2:
            shown.append(f"{words.pop()} has no price, and is ignored")
        if not words:
            return [*shown, f"{command} needs a key"]
        asked = [b"get" if command == "get" else b"put", *(word.encode() for word in words)]
        try:
            status, *parts = await self._ask(asked)
        except ChannelError as error:
            return [*shown, str(error)]
        if status != OK:
            return [*shown, parts[0].decode()]
        if command == "get":
            return [f"{key}\t{price.decode()}" for key, price in zip(words, parts, strict=True)]
        if command == "put_sync":
            try:
                await self.prices.wait_for(int(parts[0]))
            except TimeoutError:
                shown.append(f"written, but not here within {SYNC_S:g} s")
        return shown


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", help="the broker of this site; default: MOM_URL")
    parser.add_argument("--site", help="its name; refused if it has another one")
    parser.add_argument("--login", help="a user of it; default: MOM_TOKEN")
    parser.add_argument("--passcode")
    return parser.parse_args()


async def main() -> None:
    given = arguments()
    async with mom_client.environment(
        given.url, site=given.site, login=given.login, passcode=given.passcode
    ) as env:
        site = Site(env)
        await site.start()
        following = asyncio.create_task(site.follow())
        try:
            while line := await asyncio.to_thread(sys.stdin.readline):
                for shown in await site.do(line):
                    print(shown, flush=True)
        except EOFError:
            pass
        finally:
            following.cancel()


if __name__ == "__main__":
    asyncio.run(main())
