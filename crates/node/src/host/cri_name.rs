//! [`CriName`]: parses the name that a runtime gives to a container or sandbox, which contains the names of the pod
//! and the container.

use plegctl_base::report::{PodRef, Rename};

/// CRI-O's name for the container that is a pod's sandbox.
const CRIO_SANDBOX: &str = "POD";

/// The pod and container in a runtime's name.
#[derive(Clone, Debug, PartialEq, Eq, Rename)]
#[names(Container(container))]
pub struct CriName {
    /// The container; `None` for a sandbox.
    pub container: Option<String>,
    /// The pod.
    pub pod: PodRef,
}

impl CriName {
    /// Parses containerd's `container_pod_namespace_uid_attempt`, which has no first part for a sandbox, or CRI-O's
    /// `k8s_container_pod_namespace_uid_attempt`, in which a sandbox has the container name `POD`.
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('_').collect();
        let (container, name, namespace, uid, attempt) = match parts.as_slice() {
            ["k8s", container, name, namespace, uid, attempt] => {
                (Some(*container).filter(|name| *name != CRIO_SANDBOX), name, namespace, uid, attempt)
            }
            [container, name, namespace, uid, attempt] => (Some(*container), name, namespace, uid, attempt),
            [name, namespace, uid, attempt] => (None, name, namespace, uid, attempt),
            _ => return None,
        };
        let is_number = !attempt.is_empty() && attempt.bytes().all(|byte| byte.is_ascii_digit());
        (is_number && !name.is_empty()).then(|| Self {
            container: container.map(str::to_owned),
            pod: PodRef {
                uid: (*uid).to_owned(),
                namespace: (*namespace).to_owned(),
                name: (*name).to_owned(),
            },
        })
    }
}

impl CriName {
    /// Returns the name as CRI-O writes it.
    pub fn text(&self) -> String {
        let Self { container, pod: PodRef { uid, namespace, name } } = self;
        format!("k8s_{}_{name}_{namespace}_{uid}_0", container.as_deref().unwrap_or(CRIO_SANDBOX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_both_runtimes_are_parsed() {
        for (text, container) in [
            ("postgres_db-0_shop_1234-5678_2", Some("postgres")),
            ("db-0_shop_1234-5678_0", None),
            ("k8s_postgres_db-0_shop_1234-5678_0", Some("postgres")),
            ("k8s_POD_db-0_shop_1234-5678_0", None),
            ("k8s_db-0_shop_1234-5678_0", Some("k8s")),
        ] {
            let name = CriName::parse(text).unwrap();
            assert_eq!(name.container.as_deref(), container, "{text}");
            let pod = &name.pod;
            assert_eq!(
                (pod.namespace.as_str(), pod.name.as_str(), pod.uid.as_str()),
                ("shop", "db-0", "1234-5678"),
                "{text}"
            );
        }
    }

    #[test]
    fn names_of_another_form_are_refused() {
        for text in ["db-0_shop", "a_b_c_d", "a__b_c_x", "k8s_a_b_c_d_e_0", ""] {
            assert_eq!(CriName::parse(text), None, "{text}");
        }
    }
}
