//! Rows about the node itself.
