//! Tests that span rooms live in `tests/tests`.
