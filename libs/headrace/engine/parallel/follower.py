"""A process that computes its part of a model for the first rank of its group:

    python -m headrace.engine.parallel.follower --leader HOST:PORT [--device cuda:1]

It receives its rank, the checkpoint and the settings, and ends when the connection to the first rank ends. On other
hosts it is started by hand or by a job scheduler, before or after the first rank, with the checkpoint under the same
path. HEADRACE_LEADER can name the first rank instead of --leader.
"""

import argparse
import contextlib
import json
import logging
import os
import signal
import sys
from array import array
from pathlib import Path

import torch

from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.kv.block_store import BlockStore
from headrace.engine.memory.interleaving import interleave_memory
from headrace.engine.parallel.collective import join_store
from headrace.engine.parallel.joining.rank_device import device_of
from headrace.engine.parallel.load_stage import load_stage
from headrace.engine.parallel.rank_channel import Channel, RankCommand, unpack_blocks, unpack_step
from headrace.engine.parallel.rendezvous import LEADER_VARIABLE, find_leader, leader_address
from headrace.engine.parallel.shards.place import ShardPlace
from headrace.engine.parallel.stage_model import StageModel
from headrace.errors.tree import ConfigError, InternalError

_log = logging.getLogger(__name__)
CONNECT_SECONDS = 60.0


def main() -> None:
    """Joins a group and follows until it ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leader", default="", metavar="HOST:PORT", help=f"default: {LEADER_VARIABLE}")
    parser.add_argument("--device", default="", help="torch device; default: the settings' kind, numbered by rank")
    parser.add_argument(
        "--connect-seconds",
        type=float,
        default=CONNECT_SECONDS,
        metavar="SECONDS",
        help="time for which the first rank is looked for; default: %(default)s",
    )
    arguments = parser.parse_args()
    # The first rank decides when this one ends; a Ctrl-C in the terminal reaches both.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        found = find_leader(leader_address(arguments.leader, os.environ), arguments.connect_seconds)
    except ConfigError as error:
        sys.exit(error.message)
    channel = Channel(found)
    model = _join(channel, arguments.device)
    if model is not None:
        follow(channel, model)
    # Not through the interpreter's end, which would wait for a process group whose other ranks may be gone.
    sys.stdout.flush()
    os._exit(0)


def follow(channel: Channel, model: StageModel) -> None:
    """Obeys until the connection ends."""
    while (message := channel.receive()) is not None:
        order, content = message
        match order:
            case RankCommand.RUN:
                model.run(unpack_step(content))
            case RankCommand.CLEAR:
                model.clear(array("q", content).tolist())
            case RankCommand.SLEEP:
                model.sleep()
            case RankCommand.WAKE:
                model.wake()
            case RankCommand.READ:
                _send_blocks(channel, model, array("q", content).tolist())
            case RankCommand.WRITE:
                _store(model).write(*unpack_blocks(content))
            case RankCommand.JOIN:
                _log.warning("asked to join a group twice")


def _send_blocks(channel: Channel, model: StageModel, blocks: list[int]) -> None:
    contents = b"".join(_store(model).read(blocks))
    # Where the first rank is gone, the connection's end is the next that is received.
    with contextlib.suppress(InternalError):
        channel.send(RankCommand.READ, contents)


def _store(model: StageModel) -> BlockStore:
    """Returns the blocks of this rank. The first rank asks for none that cannot be copied."""
    if model.block_store is None:
        raise InternalError("the KV blocks of this rank cannot be copied")
    return model.block_store


def _join(channel: Channel, device: str) -> StageModel | None:
    message = channel.receive()
    if message is None:
        return None
    facts = json.loads(message[1])
    place = ShardPlace(**facts["place"])
    config = EngineConfig.model_validate(facts["config"])
    where = torch.device(device or device_of(config, place))
    if where.type == "cpu":
        # Other hosts inherit no policy from the first rank's.
        interleave_memory()
    store = join_store(facts["store_host"], facts["store_port"], place.world_size)
    return load_stage(Path(facts["source"]), config, place, where, store, channel.is_open).model


if __name__ == "__main__":
    main()
