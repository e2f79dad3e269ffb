//! The terminal: what is read from it and printed on it, its signals and progress lines, and the formats of `-o`.

pub mod output;
pub mod queued_output;
pub mod stop_signals;
pub mod streams;
pub mod waiting;
