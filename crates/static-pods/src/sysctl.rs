//! The name of a sysctl has two spellings: `net.ipv4.tcp_rmem` and `net/ipv4/tcp_rmem`.

/// Converts `net/ipv4/x` into `net.ipv4.x`. The first `.` or `/` in a name is its separator. In the spelling with
/// slashes, a dot is part of a name, and vice versa.
pub fn dotted(name: &str) -> String {
    let slash_first = name.find(['.', '/']).and_then(|at| name.as_bytes().get(at)) == Some(&b'/');
    if !slash_first {
        return name.to_owned();
    }
    let swap = |letter| match letter {
        '/' => '.',
        '.' => '/',
        other => other,
    };
    name.chars().map(swap).collect()
}
