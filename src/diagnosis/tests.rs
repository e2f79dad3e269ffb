//! Whole runs against a scripted runtime.
