//! Says which CRI call, which pod and which container hold up the kubelet's PLEG.
