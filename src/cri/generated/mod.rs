//! The messages of the CRI and of the kubelet's Pods API, which `cargo xtask write` generates from `proto/`. Never edit
//! them by hand. Only `cri` uses them.

include!("runtime.v1.rs");

/// The messages of the kubelet's Pods API.
pub mod pods {
    include!("v1alpha1.rs");
}
