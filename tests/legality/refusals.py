"""Illegal schedules, each one change away from a legal one, with the refusal that it must meet."""

from __future__ import annotations

from collections.abc import Callable

from tests.legality import refused_memory, refused_places, refused_reductions
from tests.legality.legal import Refusal

REFUSALS: dict[str, Callable[[], Refusal]] = {
    function.__name__: function
    for function in (
        refused_places.producer_after_consumer,
        refused_places.consumer_inside_the_loop_of_a_reduction,
        refused_places.box_read_before_it_is_filled,
        refused_places.halo_missing,
        refused_places.taken_beyond_the_window,
        refused_places.taken_from_another_thread,
        refused_places.window_with_gaps,
        refused_places.box_filled_without_its_halo,
        refused_places.needed_in_another_block,
        refused_places.register_slot_of_another_name,
        refused_places.value_of_an_earlier_pass,
        refused_places.box_of_another_pass,
        refused_places.grid_one_block_short,
        refused_places.grid_that_may_be_empty,
        refused_places.row_longer_than_a_block,
        refused_places.tiles_that_overlap,
        refused_places.second_component_never_stored,
        refused_reductions.threads_counted_twice,
        refused_reductions.contributions_left_out,
        refused_reductions.sum_split_over_blocks,
        refused_reductions.share_stored_after_the_election,
        refused_reductions.share_of_a_block_left_out,
        refused_reductions.share_taken_for_the_total,
        refused_reductions.total_read_by_every_block,
        refused_reductions.share_stored_by_two_elections,
        refused_reductions.shares_of_another_election,
        refused_reductions.two_elections_over_one_digit,
        refused_reductions.share_merged_by_blocks_that_nothing_tells_apart,
        refused_reductions.share_not_merged,
        refused_reductions.merged_at_two_places,
        refused_reductions.whole_stored_where_shares_are_merged,
        refused_reductions.combined_twice,
        refused_reductions.box_that_only_the_elected_block_fills,
        refused_reductions.results_that_share_an_accumulator,
        refused_reductions.threads_that_are_no_bits,
        refused_reductions.cluster_of_uneven_blocks,
        refused_reductions.box_shared_by_a_cluster,
        refused_reductions.prefix_across_a_cluster,
        refused_reductions.prefix_out_of_order,
        refused_reductions.prefix_of_later_blocks,
        refused_reductions.prefix_through_interleaved_blocks,
        refused_reductions.prefix_that_does_not_go_on,
        refused_reductions.prefix_of_another_row,
        refused_reductions.prefix_in_order_in_a_loop,
        refused_reductions.prefix_across_blocks,
        refused_reductions.prefix_into_another_run,
        refused_reductions.recurrence_backwards,
        refused_reductions.recurrence_in_slots,
        refused_memory.wrong_provider,
        refused_memory.wrong_component,
        refused_memory.gather_of_what_the_kernel_computes,
        refused_memory.no_barrier_before_the_gets,
        refused_memory.no_barrier_around_the_loop,
        refused_memory.box_too_small,
        refused_memory.cells_at_one_address,
        refused_memory.thread_digits_that_overlap,
        refused_memory.thread_index_of_part_of_the_block,
        refused_memory.statement_outside_its_loop,
        refused_memory.overwritten_before_a_neighbour_reads,
    )
}
