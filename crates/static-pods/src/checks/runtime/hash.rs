//! Computes the kubelet's hash of a container's name and image (releases from 1.31 on).
//!
//! The kubelet writes this hash into an annotation of each container and restarts a container whose hash differs.

use std::fmt::Write;

use plegctl_api_values::reader::push_quoted;

/// The first minor release that hashes only name and image. The hash of older releases cannot be computed from the file.
pub const SINCE_MINOR: u8 = 31;

/// Returns the value of the annotation `io.kubernetes.container.hash`.
pub fn container_hash(name: &str, image: &str) -> String {
    let mut json = String::from("{\"image\":");
    push_quoted(image, &mut json);
    json.push_str(",\"name\":");
    push_quoted(name, &mut json);
    json.push('}');
    // The kubelet hashes Go's printed form of these bytes, not the bytes themselves.
    let mut printed = String::from("([]uint8)[");
    for (index, byte) in json.bytes().enumerate() {
        let separator = if index == 0 { "" } else { " " };
        // Writing to a String cannot fail.
        let _ = write!(printed, "{separator}{byte}");
    }
    printed.push(']');
    format!("{:x}", fnv1a(printed.as_bytes()))
}

fn fnv1a(bytes: &[u8]) -> u32 {
    const BASIS: u32 = 0x811c_9dc5;
    const PRIME: u32 = 0x0100_0193;
    bytes.iter().fold(BASIS, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_equals_the_kubelets_hash() {
        for (name, image, hash) in [
            ("c", "img:1", "93a3bf10"),
            ("kube-apiserver", "registry.k8s.io/kube-apiserver:v1.36.2", "fcc274bb"),
            ("etcd", "registry.k8s.io/etcd:3.6.4-0", "e9e20c65"),
            ("web", "nginx", "9690f4d"),
            ("a", "x&y<z>", "29e129ec"),
            ("é", "i", "2814604b"),
        ] {
            assert_eq!(container_hash(name, image), hash, "{name} {image}");
        }
    }
}
