"""The trace context of the caller, from OpenTelemetry, without a dependency on it."""

from __future__ import annotations

import sys


def current_traceparent() -> str | None:
    """Of OpenTelemetry's current span. None when the program has not imported OpenTelemetry, or no span is open."""
    trace = sys.modules.get('opentelemetry.trace')
    if trace is None:
        return None
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f'00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 1:02x}'
