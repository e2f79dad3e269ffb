//! Tests of how a manifest path is read: directories, files, missing paths, encodings, and YAML as the kubelet reads
//! it.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use plegctl_engine::manifests::{
    FileReport, FileVerdict, Kubelet, KubeletVersion, ManifestEntryKind, PathKind, SourceReport, inspect,
    inspect_bytes,
};

const POD: &str =
    "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - name: c\n    image: img:1\n";

fn kubelet() -> Kubelet {
    Kubelet::new(KubeletVersion::NEWEST, "node1")
}

/// Creates an empty directory in cargo's temporary directory.
fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("source").join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

fn inspect_path(path: &Path) -> SourceReport {
    inspect(path, &kubelet())
}

fn file<'a>(report: &'a SourceReport, name: &str) -> &'a FileReport {
    report.files.iter().find(|file| file.path.file_name().unwrap() == name).unwrap()
}

fn judge(bytes: &[u8]) -> FileReport {
    inspect_bytes(Path::new("p.yaml"), bytes, &kubelet())
}

fn ids(file: &FileReport) -> Vec<String> {
    file.findings.iter().map(|finding| finding.id.to_string()).collect()
}

#[test]
fn every_name_without_a_leading_dot_is_read_in_byte_order() {
    let path = directory("order");
    for (number, name) in
        ["a_old.yaml", "#a#", "a.yaml~", "README.md", "a.yaml", ".hidden", "a-old.yaml"].iter().enumerate()
    {
        fs::write(path.join(name), POD.replace("name: p", &format!("name: p{number}"))).unwrap();
    }
    let report = inspect_path(&path);
    let names: Vec<_> =
        report.files.iter().map(|file| file.path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["#a#", ".hidden", "README.md", "a-old.yaml", "a.yaml", "a.yaml~", "a_old.yaml"]);
    for file in &report.files {
        let hidden = file.meta.as_ref().unwrap().hidden;
        assert_eq!(
            file.verdict,
            if hidden { FileVerdict::Ignored } else { FileVerdict::Loaded },
            "{:?}",
            file.path
        );
    }
}

#[test]
fn the_last_of_two_files_of_one_pod_wins() {
    let path = directory("duplicates");
    for name in ["a.yaml", "a.yaml.bak", "a-old.yaml"] {
        fs::write(path.join(name), POD).unwrap();
    }
    let report = inspect_path(&path);
    assert_eq!(file(&report, "a.yaml.bak").verdict, FileVerdict::Loaded);
    assert_eq!(file(&report, "a.yaml").verdict, FileVerdict::Shadowed);
    assert_eq!(file(&report, "a-old.yaml").verdict, FileVerdict::Shadowed);
    assert_eq!(file(&report, "a.yaml").pod.as_ref().unwrap().name, "p-node1");
}

#[test]
fn only_regular_files_are_opened() {
    let path = directory("special");
    fs::create_dir(path.join("sub")).unwrap();
    fs::write(path.join("sub/inner.yaml"), POD).unwrap();
    symlink("nowhere", path.join("dangling")).unwrap();
    symlink("loop", path.join("loop")).unwrap();
    let _socket = UnixListener::bind(path.join("socket")).unwrap();
    make_fifo(&path.join("fifo"));
    fs::write(path.join("real.txt"), POD).unwrap();
    symlink("real.txt", path.join("link.yaml")).unwrap();
    let report = inspect_path(&path);
    let kind = |name: &str| file(&report, name).meta.as_ref().unwrap().kind;
    assert_eq!(kind("sub"), ManifestEntryKind::Directory);
    assert_eq!(kind("dangling"), ManifestEntryKind::DanglingLink);
    assert_eq!(kind("loop"), ManifestEntryKind::Unreadable);
    assert_eq!(kind("socket"), ManifestEntryKind::Special);
    assert_eq!(kind("fifo"), ManifestEntryKind::Fifo);
    for (name, id) in [("dangling", "SP014"), ("fifo", "SP016"), ("socket", "SP017"), ("loop", "SP019")] {
        assert_eq!(file(&report, name).verdict, FileVerdict::Ignored, "{name}");
        assert_eq!(ids(file(&report, name)), [id], "{name}");
    }
    assert_eq!(file(&report, "sub").verdict, FileVerdict::Ignored);
    // The link and its target define the same pod; the target's name comes later in byte order, so it wins.
    assert!(file(&report, "link.yaml").meta.as_ref().unwrap().symlink);
    assert_eq!(file(&report, "link.yaml").verdict, FileVerdict::Shadowed);
    assert_eq!(file(&report, "real.txt").verdict, FileVerdict::Loaded);
}

/// Creates a FIFO with the mkfifo tool, because the standard library cannot.
#[expect(clippy::disallowed_methods, reason = "only a test needs a FIFO")]
fn make_fifo(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_path_that_is_no_directory_has_the_right_kind() {
    let path = directory("paths");
    assert_eq!(inspect_path(&path.join("missing")).kind, PathKind::Missing);
    assert_eq!(inspect_path(Path::new("/")).kind, PathKind::Missing);
    make_fifo(&path.join("fifo"));
    assert_eq!(inspect_path(&path.join("fifo")).kind, PathKind::Special);
    fs::write(path.join(".single"), POD).unwrap();
    let single = inspect_path(&path.join(".single"));
    assert_eq!(single.kind, PathKind::File);
    assert_eq!(single.files[0].verdict, FileVerdict::Loaded);
    let slashes = PathBuf::from(format!("{}///", path.display()));
    assert_eq!(inspect_path(&slashes).kind, PathKind::Directory);
}

#[test]
fn a_directory_name_with_brackets_is_a_pattern() {
    let path = directory("glob");
    fs::create_dir(path.join("s[2]")).unwrap();
    fs::write(path.join("s[2]/p.yaml"), POD).unwrap();
    let report = inspect_path(&path.join("s[2]"));
    assert!(report.files.is_empty());
    assert_eq!(report.findings[0].id.to_string(), "SP003");
    fs::create_dir(path.join("s2")).unwrap();
    fs::write(path.join("s2/q.yaml"), POD).unwrap();
    assert_eq!(inspect_path(&path.join("s[2]")).files.len(), 1);
}

#[test]
fn the_size_limit_is_exact() {
    let path = directory("size");
    for (name, size) in [("under", 10_485_759), ("at", 10_485_760)] {
        let mut text = POD.to_owned();
        text.push('#');
        text.push_str(&"x".repeat(size - text.len()));
        fs::write(path.join(name), text).unwrap();
    }
    let report = inspect_path(&path);
    assert_eq!(file(&report, "under").verdict, FileVerdict::Loaded);
    assert_eq!(file(&report, "at").verdict, FileVerdict::Rejected);
    assert_eq!(ids(file(&report, "at")), ["SP018"]);
}

fn utf16(text: &str, big: bool) -> Vec<u8> {
    let units = std::iter::once(0xfeff).chain(text.encode_utf16());
    units.flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
}

#[test]
fn encodings_that_the_kubelet_reads_are_read() {
    let mut bom = vec![0xef, 0xbb, 0xbf];
    bom.extend(POD.bytes());
    let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let mut bom_json = vec![0xef, 0xbb, 0xbf];
    bom_json.extend(json.bytes());
    for good in [
        POD.as_bytes().to_vec(),
        bom,
        utf16(POD, false),
        utf16(POD, true),
        POD.replace('\n', "\r\n").into_bytes(),
        POD.replace('\n', "\r").into_bytes(),
        json.as_bytes().to_vec(),
        format!(" \n\t{json}\n").into_bytes(),
        bom_json,
        format!("# comment\n---\n{POD}").into_bytes(),
        format!("{POD}---\n: : garbage [").into_bytes(),
        format!("{POD}...\n").into_bytes(),
        format!("%YAML 1.1\n---\n{POD}").into_bytes(),
    ] {
        let report = judge(&good);
        assert_eq!(
            report.verdict,
            FileVerdict::Loaded,
            "{:?}: {:?}",
            String::from_utf8_lossy(&good),
            report.kubelet_reason
        );
    }
}

#[test]
fn rejected_bytes_have_the_kubelets_reason() {
    let latin = [POD.as_bytes(), b"# caf\xe9 x\n"].concat();
    let nul = [POD.as_bytes(), b"# \0\n"].concat();
    let bare_utf16: Vec<u8> = POD.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (bytes, id) in [
        (latin, "SP034"),
        (nul, "SP034"),
        (bare_utf16, "SP034"),
        (b"\xff\xfea".to_vec(), "SP034"),
        (b"\x7fELF\x02\x01\x01\x00".to_vec(), "SP034"),
        (Vec::new(), "SP030"),
        (b"# only a comment\n".to_vec(), "SP030"),
        (b"---\n".to_vec(), "SP030"),
        (b"null".to_vec(), "SP030"),
        (format!("---\n---\n{POD}").into_bytes(), "SP032"),
        (b"just text".to_vec(), "SP051"),
        (b"- a\n- b\n".to_vec(), "SP051"),
        (b"a: b: c\n".to_vec(), "SP033"),
        (b"{{ .Values.pod }}\n".to_vec(), "SP038"),
        (b"a: {{ .Values.pod }}\n".to_vec(), "SP033"),
        (b"{} x".to_vec(), "SP038"),
        (format!("%YAML 1.2\n---\n{POD}").into_bytes(), "SP041"),
        (b"a: *b\n".to_vec(), "SP033"),
        (b"a: &a [*a]\n".to_vec(), "SP033"),
        (b"a: .nan\n".to_vec(), "SP033"),
        (b"~: a\n".to_vec(), "SP033"),
        (b"a: !!binary '?'\n".to_vec(), "SP033"),
        (b"a: !!int b\n".to_vec(), "SP033"),
        (b"<<: 1\n".to_vec(), "SP033"),
    ] {
        let report = judge(&bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert_eq!(report.verdict, FileVerdict::Rejected, "{text:?}");
        assert_eq!(ids(&report), [id], "{text:?}: {:?}", report.findings);
    }
}

#[test]
fn kinds_other_than_pod_are_refused() {
    for (kind, version, id) in [
        ("PodList", "v1", "SP050"),
        ("List", "v1", "SP050"),
        ("ConfigMap", "v1", "SP050"),
        ("Deployment", "apps/v1", "SP050"),
        ("Kustomization", "kustomize.config.k8s.io/v1beta1", "SP050"),
        ("pod", "v1", "SP051"),
        ("Pod", "v1beta1", "SP051"),
        ("Pod", "core/v1", "SP051"),
        ("Pod", "a/b/c", "SP051"),
        ("Pod", "1", "SP051"),
        ("''", "v1", "SP051"),
        ("Pod", "''", "SP051"),
    ] {
        let report = judge(format!("apiVersion: {version}\nkind: {kind}\n").as_bytes());
        assert_eq!(ids(&report), [id], "{kind} {version}");
    }
}

#[test]
fn only_the_type_fields_ignore_case() {
    let loads = |from: &str, to: &str| judge(POD.replace(from, to).as_bytes()).verdict == FileVerdict::Loaded;
    assert!(loads("kind:", "Kind:"));
    assert!(loads("kind:", "KIND:"));
    assert!(loads("apiVersion:", "apiversion:"));
    assert!(loads("v1", "/v1"));
    assert!(!loads("metadata:", "Metadata:"));
    assert!(!loads("containers:", "Containers:"));
    assert!(!loads("name: p", "generateName: p"));
}

/// The values of the table in the kubelet's facts.
#[test]
fn scalars_have_the_types_of_yaml_1_1() {
    let verdict = |from: &str, to: &str| judge(POD.replace(from, to).as_bytes()).verdict;
    for (from, to) in [
        ("name: p", "name: y"),
        ("name: p", "name: 123"),
        ("img:1", "1.20"),
        ("img:1", "img\n    env: [{name: A, value: 1}]"),
        ("img:1", "img\n    command: [sleep, 100]"),
        ("img:1", "img\n    ports: [{containerPort: 80.5}]"),
        ("spec:", "spec:\n  hostNetwork: 'true'"),
    ] {
        assert_eq!(verdict(from, to), FileVerdict::Rejected, "{to}");
    }
    for to in ["0100", "80.0", "8e1", "0x50", "0b11", "0o20", "1_0", "+80", "08"] {
        assert_eq!(
            verdict("img:1", &format!("img\n    ports: [{{containerPort: {to}}}]")),
            FileVerdict::Loaded,
            "{to}"
        );
    }
    let json = |number: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p"}},"spec":{{"containers":[{{"name":"c","image":"i","ports":[{{"containerPort":{number}}}]}}]}}}}"#
        )
    };
    assert_eq!(judge(json("80").as_bytes()).verdict, FileVerdict::Loaded);
    assert_eq!(judge(json("80.0").as_bytes()).verdict, FileVerdict::Rejected);
    assert_eq!(judge(json("8e1").as_bytes()).verdict, FileVerdict::Rejected);
    let octal = judge(POD.replace("img:1", "img\n    ports: [{containerPort: 0100}]").as_bytes());
    let pod = octal.document.unwrap().pod.unwrap().pod;
    let port = pod.get("spec").and_then(|spec| spec.get("containers")).unwrap().as_list().unwrap()[0]
        .get("ports")
        .unwrap();
    assert_eq!(port.as_list().unwrap()[0].get("containerPort").unwrap().as_int(), Some(64));
}

#[test]
fn merges_and_repeated_keys_count_in_written_order() {
    let name = |text: &str| judge(text.as_bytes()).pod.map(|pod| pod.name);
    let merged = "x: &a {name: z}\napiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  <<: *a\nspec: {containers: [{name: c, image: i}]}\n";
    assert_eq!(name(merged).as_deref(), Some("z-node1"));
    let first = merged.replace("  name: p\n  <<: *a\n", "  <<: *a\n  name: p\n");
    assert_eq!(name(&first).as_deref(), Some("p-node1"));
    let twice = POD.replace("  name: p\n", "  name: p\n  name: q\n");
    assert_eq!(name(&twice).as_deref(), Some("q-node1"));
    let notes = judge(twice.as_bytes()).document.unwrap().notes;
    assert_eq!(notes.duplicate_keys.len(), 1);
    assert_eq!((notes.duplicate_keys[0].first.line, notes.duplicate_keys[0].again.line), (4, 5));
    assert_eq!(judge(merged.as_bytes()).document.unwrap().notes.merges[0].overrides, ["name"]);
}

#[test]
fn commas_after_a_tag_belong_to_the_tag() {
    let report = judge(POD.replace("img:1", "img\n    args: [!foo, a, 'x !y, z', b !c, d]").as_bytes());
    assert_eq!(report.verdict, FileVerdict::Loaded, "{:?}", report.kubelet_reason);
    let pod = report.document.unwrap().pod.unwrap().pod;
    let container = &pod.get("spec").unwrap().get("containers").unwrap().as_list().unwrap()[0];
    let args: Vec<_> =
        container.get("args").unwrap().as_list().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
    assert_eq!(args, ["a", "x !y, z", "b !c", "d"]);
}

/// Where go-yaml and libyaml differ, the reader must do what go-yaml does.
#[test]
fn where_yaml_parsers_differ_go_yaml_counts() {
    let with = |value: &str| judge(POD.replace("img:1", value).as_bytes());
    assert_eq!(with("img\n    args: [\"it\\'s\", \"\\'\\'\", '\\']").verdict, FileVerdict::Loaded);
    assert_eq!(with("img\n    args: [\"a\\/b\"]").verdict, FileVerdict::Rejected);
    assert_eq!(with("img\n    args: [\"a\\\\/b\", 'a\\/b']").verdict, FileVerdict::Loaded);
    assert_eq!(with("img\n    args: [a?b]").verdict, FileVerdict::Rejected);
    assert_eq!(with("img\n    args: ['a?b']\n    command:\n    - a?b").verdict, FileVerdict::Loaded);
    assert_eq!(with("img\n    args: [\"\\q\"]").verdict, FileVerdict::Rejected);
}

#[test]
fn non_ascii_letters_do_not_change_the_reading() {
    let with = |value: &str| judge(POD.replace("img:1", &format!("img # äöü\n    {value}")).as_bytes());
    assert_eq!(with("args: [\"ä\", \"it\\'s\", \"\\'\"]").verdict, FileVerdict::Loaded);
    assert_eq!(with("args: [\"ä\", \"a\\/b\"]").verdict, FileVerdict::Rejected);
    assert_eq!(with("args: [\"a\", 'a\\/b']").verdict, FileVerdict::Loaded);
    let text =
        POD.replace("img:1\n", "img # äöüäöü\n    command:\n    - |\n      ü\n    args:\n    - |\n      b");
    let pod = judge(text.as_bytes()).document.unwrap().pod.unwrap().pod;
    let container = pod.get("spec").unwrap().get("containers").unwrap().as_list().unwrap()[0].clone();
    let first =
        |field: &str| container.get(field).unwrap().as_list().unwrap()[0].as_str().unwrap().to_owned();
    assert_eq!((first("command").as_str(), first("args").as_str()), ("ü\n", "b"));
}

/// In flow style libyaml rejects a plain value with a colon before a bracket or comma; go-yaml accepts it.
#[test]
fn a_colon_without_a_blank_is_part_of_a_plain_value() {
    let args = |value: &str| {
        let report = judge(POD.replace("img:1", &format!("img\n    args: {value}")).as_bytes());
        let pod = report.document.and_then(|document| document.pod)?;
        let container = pod.pod.get("spec")?.get("containers")?.as_list()?.first()?.clone();
        let args = container.get("args")?.as_list()?.iter().map(|arg| arg.as_str().map(str::to_owned));
        args.collect::<Option<Vec<_>>>()
    };
    let texts = |texts: &[&str]| Some(texts.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(args("[a:, b:c, d:]"), texts(&["a:", "b:c", "d:"]));
    assert_eq!(args("[http://x:, 'y:']"), texts(&["http://x:", "y:"]));
    assert_eq!(args("[a:[b]]"), None);
    let private = judge(POD.replace("img:1", "\u{e001} # {\n    args: [a:]").as_bytes());
    assert_eq!(private.verdict, FileVerdict::Loaded);
    let dropped = judge(POD.replace("img:1", "img\n    tty: false\n    resources: {limits:}").as_bytes());
    assert_eq!(dropped.verdict, FileVerdict::Loaded);
    let dropped = dropped.document.unwrap().pod.unwrap().dropped;
    assert_eq!(dropped.len(), 1, "{dropped:?}");
}

/// Inputs that crashed libyaml's scanner, from which this one was ported.
#[test]
fn inputs_that_once_crashed_the_scanner_are_errors() {
    for text in [
        "a: |\n  text",
        "|+\n #",
        "\"\\",
        "[&a !b, c]",
        "[\"x\"!b, c]",
        "[*x !b, c]",
        "{? !<a,b>, c}",
        "a: [{}: b]",
        "a: [[]: b]",
    ] {
        assert_eq!(judge(text.as_bytes()).verdict, FileVerdict::Rejected, "{text}");
    }
    let block = |value: &str| {
        let report = judge(POD.replace("    image: img:1\n", &format!("    image: {value}")).as_bytes());
        (report.verdict, report.document.unwrap().root)
    };
    // Without a last line break the value has no line break either, so it has no blank at its end.
    assert_eq!(block("|\n      img").0, FileVerdict::Loaded);
    assert_eq!(block("|\n      img\n").0, FileVerdict::Rejected);
    assert_eq!(block("|-\n      img\n").0, FileVerdict::Loaded);
}

#[test]
fn later_documents_are_noted_and_not_parsed() {
    let report = judge(format!("{POD}---\n# nothing\n---\napiVersion: v1\nkind: Service\n").as_bytes());
    assert_eq!(report.verdict, FileVerdict::Loaded);
    let later = report.document.unwrap().notes.later_documents;
    assert_eq!(later.len(), 2);
    assert!(!later[0].has_content);
    assert_eq!(later[1].kind.as_deref(), Some("Service"));
    assert_eq!(later[1].position.line, 11);
}

#[test]
fn dropped_fields_are_listed_with_the_field_that_was_meant() {
    use plegctl_engine::manifests::DropReason;
    let text = POD
        .replace("    image: img:1\n", "    image: img:1\n    comand: [a]\n")
        .replace("spec:\n", "replicas: 3\nspec:\n  hostnetwork: true\n  image: x\n");
    let dropped = judge(text.as_bytes()).document.unwrap().pod.unwrap().dropped;
    let near = |name: &str| match &dropped.iter().find(|field| field.name == name).unwrap().why {
        DropReason::Unknown { near, home } => (near.clone(), home.clone()),
        other => panic!("{other:?}"),
    };
    assert_eq!(near("comand").0.as_deref(), Some("command"));
    assert_eq!(near("hostnetwork").0.as_deref(), Some("hostNetwork"));
    assert_eq!(near("image").1.as_deref(), Some("spec.containers[]"));
    assert_eq!(near("replicas"), (None, None));
}

#[test]
fn alias_bombs_and_deep_nesting_are_limited() {
    use std::fmt::Write as _;
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..9 {
        let below = level - 1;
        let _ = writeln!(bomb, "a{level}: &a{level} [{}]", vec![format!("*a{below}"); 10].join(","));
    }
    assert_eq!(ids(&judge(bomb.as_bytes())), ["SP033"]);
    for deep in [9_000, 10_001, 100_000] {
        let json = format!("{{\"a\":{}{}}}", "[".repeat(deep), "]".repeat(deep));
        assert_eq!(judge(json.as_bytes()).verdict, FileVerdict::Rejected);
    }
    let within = format!("{POD}unknown: {}{}\n", "[".repeat(3_000), "]".repeat(3_000));
    assert_eq!(judge(within.as_bytes()).verdict, FileVerdict::Loaded);
    let beyond = format!("{POD}unknown: {}{}\n", "[".repeat(10_000), "]".repeat(10_000));
    assert_eq!(judge(beyond.as_bytes()).verdict, FileVerdict::Rejected);
    let open = format!("{POD}unknown: {}{}\n", "[".repeat(5_000), "a,".repeat(30_000));
    assert_eq!(judge(open.as_bytes()).verdict, FileVerdict::Rejected);
    let block: String = (0..3_000).fold(POD.to_owned() + "unknown:\n", |mut text, level| {
        let _ = writeln!(text, "{}a:", " ".repeat(level + 1));
        text
    });
    assert_eq!(judge(block.as_bytes()).verdict, FileVerdict::Loaded);
}

#[test]
fn long_the_number_of_values_in_a_file_is_limited() {
    for (values, verdict) in [(100_000, FileVerdict::Loaded), (600_000, FileVerdict::NotJudged)] {
        let yaml = format!("{POD}unknown:\n{}", "- 1\n".repeat(values));
        assert_eq!(judge(yaml.as_bytes()).verdict, verdict);
    }
}

#[test]
fn long_a_mapping_with_many_keys_is_read_in_linear_time() {
    use std::fmt::Write as _;
    let mut text = POD.to_owned();
    text.push_str("unknown:\n");
    for number in 0..200_000 {
        let _ = writeln!(text, "  k{number}: v");
    }
    assert_eq!(judge(text.as_bytes()).verdict, FileVerdict::Loaded);
}
