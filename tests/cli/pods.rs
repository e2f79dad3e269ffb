//! The process tests of `plegctl pods`: every recorded script of the kubelet's own `PodConfig`, played with a real
//! directory, a real URL and pod lists on stdin; an API server; bad sources; very many pods.

mod api_server;
mod bad_sources;
mod linted;
mod scripts;
mod server;
mod views;
mod why;
