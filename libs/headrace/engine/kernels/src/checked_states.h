// Bounds checks of the rows and slots that states are moved by, before a kernel reads or writes memory by them.

#pragma once

#include "abi.h"
#include "checked_ids.h"

namespace headrace {

// Returns whether the moves cover the rows of a step in order, without gaps, and copy states at tokens that they have.
inline bool rows_fit(const StateMove *moves, int64_t move_count, int64_t row_count) {
    if (row_count < 0 || move_count < 0) return false;
    int64_t row = 0;
    for (int64_t i = 0; i < move_count; ++i) {
        const StateMove &move = moves[i];
        if (move.first_row != row || move.row_count < 1 || move.row_count > row_count - row) return false;
        for (const auto &capture : move.captures)
            if (capture.row_count < 0 || capture.row_count > move.row_count) return false;
        row += move.row_count;
    }
    return row == row_count;
}

// Returns whether all slots that states are read from and written to exist.
inline bool slots_fit(const StateMove *moves, int64_t move_count, int64_t slot_count) {
    for (int64_t i = 0; i < move_count; ++i) {
        const StateMove &move = moves[i];
        if (move.source < -1 || move.source >= slot_count || move.target < -1 || move.target >= slot_count)
            return false;
        for (const auto &capture : move.captures)
            if (capture.row_count && (capture.slot < 0 || capture.slot >= slot_count)) return false;
    }
    return true;
}

inline Failure check_moves(const StateMove *moves, int64_t move_count, int64_t row_count, int64_t slot_count) {
    if (!rows_fit(moves, move_count, row_count)) return kBadSpan;
    return slots_fit(moves, move_count, slot_count) ? kFine : kBadSlot;
}

inline Failure check_recurrence(const Recurrence &r) {
    if (r.key_head_count < 1 || r.head_count < r.key_head_count || r.head_count % r.key_head_count) return kBadCount;
    if (r.key_size < 1 || r.value_size < 1) return kBadCount;
    return check_moves(r.moves, r.move_count, r.row_count, r.slot_count);
}

inline Failure check_convolution(const Convolution &c) {
    if (c.tap_count < 1 || c.tap_count > kMostTaps || c.channel_count < 1 || c.stride < c.channel_count)
        return kBadCount;
    return check_moves(c.moves, c.move_count, c.row_count, c.slot_count);
}

}  // namespace headrace
