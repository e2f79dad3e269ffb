//! The input of the rules for containers: parts of the pod outside of the container.

use std::collections::{HashMap, HashSet};

use crate::pod_field::PodField;

/// The parts of a pod that the rules for its containers need.
pub struct PodContext<'a> {
    /// The spec.
    pub spec: PodField<'a>,
    /// The valid volumes by name.
    pub volumes: HashMap<&'a str, PodField<'a>>,
    /// The names of the pod's resource claims.
    pub claims: HashSet<&'a str>,
}

impl PodContext<'_> {
    /// Whether the pod uses the host's user namespace.
    pub fn host_users(&self) -> bool {
        self.spec.get("hostUsers").opt_bool() != Some(false)
    }
}
