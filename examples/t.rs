use plegctl::manifests::*;
use std::path::Path;
use std::time::Instant;
fn t(n: &str, s: &str) {
    let k = Kubelet { version: KubeletVersion::NEWEST, node_name: "node1".into() };
    let i = Instant::now();
    let r = inspect_bytes(Path::new("p"), s.as_bytes(), &k);
    println!(
        "{n} {:?} {:?} {:?}",
        i.elapsed(),
        r.verdict,
        r.kubelet_reason.map(|r| r.chars().take(120).collect::<String>())
    );
}
fn main() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - name: c\n    image: img:1\n";
    for d in [1000, 9000, 10000, 100000, 3000000] {
        t(&format!("flow{d}"), &format!("a: {}{}\n", "[".repeat(d), "]".repeat(d)));
        t(&format!("json{d}"), &format!("{{\"a\":{}{}}}", "[".repeat(d), "]".repeat(d)));
        t(&format!("map{d}"), &"{a: ".repeat(d));
        t(&format!("map2{d}"), &format!("x: {}", "{a: ".repeat(d)));
        t(&format!("q{d}"), &format!("x: {}", "[? ".repeat(d)));
        t(&format!("dash{d}"), &"- ".repeat(d));
        t(&format!("anch{d}"), &"&a [*a]\n ".repeat(d));
        t(&format!("keys{d}"), &"a: \n".repeat(d));
        t(&format!("quote{d}"), &format!("a: \"{}", "\\".repeat(d)));
        t(&format!("sp{d}"), &" ".repeat(d));
    }
    let mut b = pod.to_owned() + "unknown:\n";
    for l in 0..3000 {
        b += &" ".repeat(l + 1);
        b += "a:\n";
    }
    t("block", &b);
    t("garbage", &"a".repeat(10_000_000));
    t("colon", &":".repeat(10_000_000));
    t("pct", &"%".repeat(1000000));
    t("bang", &"!".repeat(1000000));
    t("tags", &"!%41 ".repeat(1000000));
}
