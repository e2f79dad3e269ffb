//! The pod around a container.

use std::collections::{HashMap, HashSet};

use crate::manifests::place::Place;

/// What the rules of a container need to know of its pod.
pub struct Pod<'a> {
    /// The spec.
    pub spec: Place<'a>,
    /// The volumes that are valid by themselves.
    pub volumes: HashMap<&'a str, Place<'a>>,
    /// The names of the pod's resource claims.
    pub claims: HashSet<&'a str>,
}

impl Pod<'_> {
    /// False if the pod has a user namespace of its own.
    pub fn host_users(&self) -> bool {
        self.spec.get("hostUsers").opt_bool() != Some(false)
    }
}
