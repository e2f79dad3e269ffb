//! `plegctl pods`: every recorded script of the kubelet's own `PodConfig`, played on a real directory, a real URL and
//! lists of pods on stdin; what became of pods; bad sources.

mod scripts;
