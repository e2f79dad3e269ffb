//! Tests of the UIDs of static pods: a UID changes exactly when the decoded content of the manifest changes.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

use plegctl_engine::manifests::{Kubelet, KubeletVersion, inspect_bytes};
use serde_json::{Map, Value, json};

/// Pseudo-random numbers (`SplitMix64`), so that the test generates the same files on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).unwrap()).unwrap()
    }

    /// Is true once in this many calls, on average.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// Returns the UID that a release gives the pod.
fn uid(text: &str, minor: u8) -> String {
    let kubelet = Kubelet::new(KubeletVersion::nearest(minor), "node1");
    let path = Path::new("/etc/kubernetes/manifests/p.yaml");
    let report = inspect_bytes(path, text.as_bytes(), &kubelet);
    let why = format!("{:?} {:?}\n{text}", report.kubelet_reason, report.uid);
    report.uid.and_then(Result::ok).unwrap_or_else(|| panic!("{why}"))
}

/// Returns the pod that is mutated.
fn seed() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "labels": {"a": "b"}, "annotations": {"k": "v"}},
        "spec": {
            "containers": [
                {"name": "main", "image": "app:1", "command": ["/app"], "env": [{"name": "A", "value": "1"}]},
                {"name": "side", "image": "side:1", "ports": [{"containerPort": 80}]}
            ],
            "volumes": [{"name": "v", "hostPath": {"path": "/v"}}]
        }
    })
}

/// Edits that change the UID: a JSON pointer and the values for it.
const EDITS: &[(&str, &[&str])] = &[
    ("/metadata/namespace", &["\"default\"", "\"kube-system\"", "\"other\""]),
    ("/metadata/labels/a", &["\"c\"", "\"\"", "\"line\\nbreak\""]),
    ("/metadata/labels/more", &["\"x\"", "\"y\""]),
    ("/metadata/annotations/k", &["\"v2\"", "\"{ } host:\""]),
    ("/metadata/finalizers", &["[]", "[\"a/b\"]", "[\"a/b\",\"c/d\"]"]),
    ("/spec/hostNetwork", &["true"]),
    ("/spec/hostUsers", &["true", "false"]),
    ("/spec/priority", &["0", "7", "2000001000"]),
    ("/spec/priorityClassName", &["\"system-node-critical\""]),
    ("/spec/terminationGracePeriodSeconds", &["0", "5", "60"]),
    ("/spec/restartPolicy", &["\"Never\"", "\"OnFailure\""]),
    ("/spec/dnsPolicy", &["\"Default\"", "\"ClusterFirstWithHostNet\""]),
    ("/spec/nodeSelector", &["{}", "{\"a\":\"b\"}", "{\"a\":\"c\",\"d\":\"e\"}"]),
    (
        "/spec/tolerations",
        &["[]", "[{\"operator\":\"Exists\"}]", "[{\"key\":\"a\",\"operator\":\"Exists\"}]"],
    ),
    ("/spec/containers/0/image", &["\"app:2\"", "\"app\"", "\"app:latest\""]),
    ("/spec/containers/0/args", &["[]", "[\"--v=2\"]", "[\"--v=2\",\"--x\"]"]),
    ("/spec/containers/0/env/0/value", &["\"2\"", "\"\"", "\"a b\""]),
    (
        "/spec/containers/0/resources",
        &[
            "{\"limits\":{}}",
            "{\"limits\":{\"cpu\":\"1\"}}",
            "{\"limits\":{\"cpu\":\"2\"}}",
            "{\"limits\":{\"memory\":\"64Mi\"}}",
            "{\"requests\":{\"memory\":\"64Mi\"}}",
        ],
    ),
    (
        "/spec/containers/0/livenessProbe",
        &[
            "{\"tcpSocket\":{\"port\":80}}",
            "{\"tcpSocket\":{\"port\":\"http\"}}",
            "{\"httpGet\":{\"port\":80,\"path\":\"/x\"}}",
        ],
    ),
    ("/spec/containers/0/securityContext", &["{}", "{\"privileged\":true}", "{\"privileged\":false}"]),
    ("/spec/containers/1/ports/0/containerPort", &["81", "8080"]),
    ("/spec/containers/1/tty", &["true"]),
    ("/spec/volumes/0/hostPath/type", &["\"Directory\"", "\"File\""]),
    ("/spec/volumes/0/hostPath/path", &["\"/w\""]),
];

/// Sets the value at a JSON pointer whose parents exist.
fn set(root: &mut Value, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    root.pointer_mut(parent).unwrap().as_object_mut().unwrap().insert(key.to_owned(), value);
}

/// Formats content in a random way that does not change it. The key order, blanks, comments, null fields, unknown fields
/// and the choice of JSON or YAML are random.
fn random_text(value: &Value, random: &mut Random) -> String {
    if random.once_in(2) {
        let mut text = String::new();
        write_flow(value, random, &mut text);
        let trailer = if random.once_in(2) { "\n--- # not read\n}" } else { "" };
        // A comment before the first bracket makes the text YAML instead of JSON.
        return if random.once_in(2) { text } else { format!("# a comment\n{text}{trailer}") };
    }
    let mut text = if random.once_in(2) { "---\n".to_owned() } else { String::new() };
    write_block(value, 0, random, &mut text);
    text
}

/// Returns the entries in random order.
fn shuffled<'a>(map: &'a Map<String, Value>, random: &mut Random) -> Vec<(&'a String, &'a Value)> {
    let mut entries: Vec<_> = map.iter().collect();
    for last in (1..entries.len()).rev() {
        entries.swap(last, random.below(last + 1));
    }
    entries
}

/// Returns a field that decoding drops: an unknown field, or a known field that is null.
fn dropped_field(random: &mut Random) -> Option<&'static str> {
    let all = ["unknownField", "hostAliases", "selfLink", "subdomain"];
    random.once_in(6).then(|| all[random.below(all.len())])
}

/// Appends a value in JSON's syntax, which is YAML's flow style too.
fn write_flow(value: &Value, random: &mut Random, text: &mut String) {
    let blank = |random: &mut Random| if random.once_in(4) { "\n " } else { " " };
    match value {
        Value::Object(map) => {
            text.push('{');
            // Only objects of Kubernetes have a name. In a map of labels, any key would be content.
            if map.contains_key("name")
                && let Some(field) = dropped_field(random)
            {
                write!(text, "\"{field}\": null,").unwrap();
            }
            for (number, (key, value)) in shuffled(map, random).into_iter().enumerate() {
                let comma = if number > 0 { "," } else { "" };
                write!(text, "{comma}{}\"{key}\":{}", blank(random), blank(random)).unwrap();
                write_flow(value, random, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (number, item) in items.iter().enumerate() {
                let comma = if number > 0 { "," } else { "" };
                write!(text, "{comma}{}", blank(random)).unwrap();
                write_flow(item, random, text);
            }
            text.push(']');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

/// Appends a mapping in YAML's block style; lists inside of it are in flow style.
fn write_block(value: &Value, depth: usize, random: &mut Random, text: &mut String) {
    let Value::Object(map) = value else { unreachable!("only mappings are written in block style") };
    let indent = " ".repeat(depth);
    if map.contains_key("name")
        && let Some(field) = dropped_field(random)
    {
        writeln!(text, "{indent}{field}: ~").unwrap();
    }
    for (key, value) in shuffled(map, random) {
        if random.once_in(8) {
            text.push_str("\n# another comment\n");
        }
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                writeln!(text, "{indent}{key}:").unwrap();
                write_block(value, depth + 1 + random.below(3), random, text);
            }
            other => {
                write!(text, "{indent}{key}: ").unwrap();
                let mut one_line = String::new();
                write_flow(other, random, &mut one_line);
                text.push_str(&one_line.replace('\n', " "));
                text.push('\n');
            }
        }
    }
}

#[test]
fn a_uid_changes_exactly_when_the_decoded_content_does() {
    let mut random = Random(13);
    let mut uid_of: HashMap<(u8, String), String> = HashMap::new();
    let mut content_of: HashMap<(u8, String), String> = HashMap::new();
    for _ in 0..10_000 {
        let mut model = seed();
        for _ in 0..random.below(3) {
            let (place, values) = EDITS[random.below(EDITS.len())];
            set(&mut model, place, serde_json::from_str(values[random.below(values.len())]).unwrap());
        }
        let minor = [28, 31, 34, 36][random.below(4)];
        let content = model.to_string();
        let text = random_text(&model, &mut random);
        let found = uid(&text, minor);
        let first_uid = uid_of.entry((minor, content.clone())).or_insert_with(|| found.clone());
        assert_eq!(*first_uid, found, "the same content, another UID: {content}\n{text}");
        let first_content = content_of.entry((minor, found)).or_insert_with(|| content.clone());
        assert_eq!(*first_content, content, "other content, the same UID\n{text}");
    }
    assert!(uid_of.len() > 1_500, "{}", uid_of.len());
}

/// The kubelet prints lists without quotes, so one argument with a blank and two arguments give the same UID.
#[test]
fn a_blank_within_an_argument_does_not_change_the_uid() {
    let with = |arguments: Value| {
        let mut pod = seed();
        set(&mut pod, "/spec/containers/0/args", arguments);
        uid(&pod.to_string(), 36)
    };
    assert_eq!(with(json!(["--v=2", "--x"])), with(json!(["--v=2 --x"])));
    assert_ne!(with(json!(["--v=2", "--x"])), with(json!(["--v=2"])));
}

#[test]
fn the_uid_depends_on_path_node_and_release_and_a_fixed_uid_is_kept() {
    let text = seed().to_string();
    let of = |path: &str, node: &str, text: &str| {
        let kubelet = Kubelet::new(KubeletVersion::NEWEST_WITH_UIDS, node);
        inspect_bytes(Path::new(path), text.as_bytes(), &kubelet).uid.unwrap().unwrap()
    };
    let all = [
        of("/etc/kubernetes/manifests/p.yaml", "node1", &text),
        of("/etc/kubernetes/manifests/q.yaml", "node1", &text),
        of("/etc/kubernetes/manifests/p.yaml", "node2", &text),
        uid(&text, 35),
        uid(&text, 34),
    ];
    let distinct: std::collections::HashSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), all.len());
    assert_eq!(of("/etc//kubernetes/./manifests/p.yaml", "node1", &text), all[0]);
    let fixed = text.replace("\"name\":\"web\"", "\"name\":\"web\",\"uid\":\"mine\"");
    assert_eq!(of("/anywhere", "node1", &fixed), "mine");
}

/// Without quotes these are YAML numbers, and the kubelet sees the number and not how it was written.
#[test]
fn an_unquoted_number_is_a_quantity_by_its_value() {
    let of = |amount: &str| {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  containers:\n  - {{name: c, image: i, resources: {{limits: {{memory: {amount}}}}}}}\n"
        );
        uid(&text, 36)
    };
    for (written, number) in
        [("1e3", "1000"), ("1_000", "1000"), ("010", "8"), ("0x10", "16"), ("1e18", "1000000000000000000")]
    {
        assert_eq!(of(written), of(number), "{written}");
        assert_eq!(of(written), of(&format!("\"{number}\"")), "{written}");
    }
    assert_ne!(of("1e3"), of("\"1e3\""));
    assert_ne!(of("1000"), of("1k"));
}
