"""The table of tablet states."""

import itertools

import pytest

from stele.tablet.states import (
    READS,
    TRANSITIONS,
    WRITES,
    IllegalTransition,
    Service,
    TabletEvent,
    TabletLife,
    TabletState,
    mermaid,
)

LOAD = [
    TabletEvent.LOAD_REQUESTED,
    TabletEvent.CONFIG_LOADED,
    TabletEvent.LOG_REPLAYED,
    TabletEvent.CONFIG_SAVED,
    TabletEvent.FRAGMENTS_LOADED,
]
UNLOAD = [
    TabletEvent.UNLOAD_REQUESTED,
    TabletEvent.MEMORY_SERIALIZED,
    TabletEvent.FINAL_CONFIG_SAVED,
]


def test_a_load_and_an_unload_pass_through_all_numbered_states() -> None:
    life = TabletLife("t")
    passed = [life.handle(event) for event in LOAD + UNLOAD]
    assert [int(state) for state in passed] == [1, 2, 3, 4, 5, 6, 7, 0]


def test_every_state_says_what_it_does_with_reads_and_writes() -> None:
    assert set(READS) == set(WRITES) == set(TabletState)


def test_writes_are_taken_before_reads_while_loading() -> None:
    assert WRITES[TabletState.FRAGMENTS_LOADING] is Service.SERVE
    assert READS[TabletState.FRAGMENTS_LOADING] is Service.DEFER


def test_requests_are_deferred_while_the_tablet_loads() -> None:
    loading = (
        TabletState.CONFIG_LOADING,
        TabletState.LOG_REPLAYING,
        TabletState.CONFIG_SAVING,
    )
    assert all(READS[state] is WRITES[state] is Service.DEFER for state in loading)


def test_reads_go_on_while_memory_is_written_and_stop_before_the_final_config() -> None:
    assert READS[TabletState.READ_ONLY] is Service.SERVE
    assert WRITES[TabletState.READ_ONLY] is Service.REFUSE
    assert READS[TabletState.FINAL_CONFIG_SAVING] is Service.REFUSE


def test_an_illegal_step_tells_the_story() -> None:
    life = TabletLife("users.4")
    life.handle(TabletEvent.LOAD_REQUESTED)
    with pytest.raises(
        IllegalTransition, match=r"users\.4.*CONFIG_LOADING.*UNKNOWN -load requested"
    ):
        life.handle(TabletEvent.FINAL_CONFIG_SAVED)
    assert life.state is TabletState.CONFIG_LOADING


def test_every_pair_outside_the_table_is_refused() -> None:
    for state, event in itertools.product(TabletState, TabletEvent):
        life = TabletLife("t", state)
        if (state, event) in TRANSITIONS:
            assert life.handle(event) is TRANSITIONS[state, event]
        else:
            with pytest.raises(IllegalTransition):
                life.handle(event)


def test_the_story_is_bounded() -> None:
    life = TabletLife("t")
    for _ in range(50):
        for event in LOAD + UNLOAD:
            life.handle(event)
    assert len(life.story) == TabletLife.STORY_LENGTH_MAX


def test_the_drawing_has_one_arrow_for_each_transition() -> None:
    assert mermaid().count("-->") == len(TRANSITIONS) + 1
