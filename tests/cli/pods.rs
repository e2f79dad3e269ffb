//! `plegctl pods`: every recorded script of the kubelet's own `PodConfig`, played on a real directory, a real URL and
//! lists of pods on stdin; an API server; bad sources; very many pods.

mod api_server;
mod bad_sources;
mod linted;
mod scripts;
mod server;
