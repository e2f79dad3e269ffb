//! What plegctl serves over HTTP: metrics for `watch` and `record`, and the pages of a recorder, which a simulated fleet has
//! too. The token of the protected pages is read here for both sides.

pub mod metrics_server;
pub mod recorder_exports;
pub mod recorder_pages;
pub mod token_file;
