//! Finds out whether a process has an established TCP connection to an address, from its tables in `/proc`.

pub use connection::is_connected;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The kernel prints an address as words of 32 bits in the byte order of the machine; all machines of Kubernetes with
/// this product are little-endian.
pub fn hexadecimal_address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(text.get(at..at + 8)?, 16).ok()?.swap_bytes());
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let whole = words.into_iter().fold(0_u128, |whole, word| (whole << 32) | u128::from(word));
            let address = Ipv6Addr::from(whole);
            Some(address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4))
        }
        _ => None,
    }
}

mod connection {
    use std::collections::BTreeSet;
    use std::fs;
    use std::io;
    use std::net::IpAddr;
    use std::path::Path;

    use super::hexadecimal_address;
    use crate::host::kernel_text;
    use crate::host::proc::waits_uninterruptibly;

    /// The kernel's number of the state `TCP_ESTABLISHED`.
    const ESTABLISHED: &str = "01";

    /// The maximum number of descriptors of a process that are read.
    const MAX_DESCRIPTORS: usize = 65_536;

    /// Whether the process `pid` has an established connection to this port and, if it is known, to this address. Fails if its
    /// tables or its descriptors cannot be read.
    pub fn is_connected(proc: &Path, pid: u32, address: Option<IpAddr>, port: u16) -> io::Result<bool> {
        let dir = proc.join(pid.to_string());
        // Reading the descriptors of a process in uninterruptible sleep could block.
        if waits_uninterruptibly(&dir) {
            return Err(io::Error::other("the process is in uninterruptible sleep"));
        }
        let mut sockets = BTreeSet::new();
        for (index, table) in ["tcp", "tcp6"].into_iter().enumerate() {
            match kernel_text(&dir.join("net").join(table)) {
                Ok(text) => {
                    let lines = text.lines().filter_map(established);
                    let there = lines
                        .filter(|(_, to, at)| *at == port && address.is_none_or(|address| *to == address));
                    sockets.extend(there.map(|(inode, ..)| format!("socket:[{inode}]")));
                }
                // A kernel without IPv6 has no such table.
                Err(_) if index > 0 => {}
                Err(why) => return Err(why),
            }
        }
        // The table has the connections of every process in the network namespace.
        let descriptors = fs::read_dir(dir.join("fd"))?.flatten().take(MAX_DESCRIPTORS);
        let mut targets = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
        Ok(targets.any(|target| target.to_str().is_some_and(|target| sockets.contains(target))))
    }

    /// Parses a line of an established connection: the inode, the remote address and the remote port.
    pub(super) fn established(line: &str) -> Option<(&str, IpAddr, u16)> {
        let mut words = line.split_ascii_whitespace();
        let (remote, state) = (words.nth(2)?, words.next()?);
        let inode = words.nth(5)?;
        let (address, port) = remote.split_once(':')?;
        (state == ESTABLISHED).then_some(())?;
        Some((inode, hexadecimal_address(address)?, u16::from_str_radix(port, 16).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use std::path::Path;

    use super::connection::established;
    use super::*;

    #[test]
    fn an_established_connection_of_this_process_is_found_and_others_are_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        // The process may be in uninterruptible sleep for a moment, on a busy machine; then nothing is read.
        let find = |address, port| loop {
            if let Ok(found) = is_connected(Path::new("/proc"), std::process::id(), address, port) {
                break found;
            }
            std::thread::yield_now();
        };
        assert!(!find(Some(place.ip()), place.port()), "it only listens");
        let client = TcpStream::connect(place).unwrap();
        assert!(find(Some(place.ip()), place.port()) && find(None, place.port()));
        assert!(!find(Some("127.0.0.2".parse().unwrap()), place.port()));
        drop((client, listener));
    }

    #[test]
    fn a_line_of_the_table_is_parsed() {
        let line = "   1: 0100007F:A2F4 0A0B0C0D:192B 01 00000000:00000000 02:00000ABC 00000000     0        0 4711 2 0 20 4 30 10 -1";
        assert_eq!(established(line), Some(("4711", "13.12.11.10".parse().unwrap(), 6443)));
        assert_eq!(established(&line.replace(" 01 ", " 06 ")), None, "TIME_WAIT");
        let mapped = "0000000000000000FFFF00000100007F";
        assert_eq!(hexadecimal_address(mapped), Some("127.0.0.1".parse().unwrap()));
        assert_eq!(hexadecimal_address("B80D0120"), Some("32.1.13.184".parse().unwrap()));
    }
}
