"""A step in the form passed to the C++ kernels."""

from headrace.engine.kernels.structures import Step
from headrace.engine.step.step_arrays import SPAN_FIELDS, StepArrays


def kernel_step(arrays: StepArrays, logits: int | None = None) -> Step:
    """Points at `arrays`, which must outlive the step, and at the address where the kernels write `logits`, fp32 [rows,
    vocabulary], or the hidden states of a model without a head, fp32 [rows, hidden]."""
    token_ids, _ = arrays.buffer.buffer_info()
    size = arrays.buffer.itemsize
    tables = token_ids + arrays.token_count * size
    spans = tables + arrays.table_size * size
    logit_rows = spans + arrays.span_count * SPAN_FIELDS * size
    return Step(
        token_ids=token_ids,
        tables=tables,
        spans=spans,
        logit_rows=logit_rows,
        logits=logits,
        row_count=arrays.token_count,
        span_count=arrays.span_count,
        logit_count=arrays.logit_count,
        table_size=arrays.table_size,
    )
