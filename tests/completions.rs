//! Checks that the committed completion scripts are equal to the program's output, and that bash completes values.
//! After a change of the command line, `cargo xtask write completions` updates the scripts.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::{env, fs};

use crate::support::captures::skip;
use crate::support::socket::TempDir;
use crate::support::{difference, plegctl, terminal};

#[test]
fn committed_completions_are_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("completions");
    for (shell, file) in [
        ("bash", "plegctl.bash"),
        ("zsh", "_plegctl"),
        ("fish", "plegctl.fish"),
        ("elvish", "plegctl.elv"),
        ("powershell", "_plegctl.ps1"),
    ] {
        let output = plegctl::plegctl(&["completions", shell]);
        assert_eq!(output.code, Some(0), "{output}");
        let path = folder.join(file);
        let printed = output.stdout;
        difference::update_if_blessed(&path, &printed);
        let committed = fs::read_to_string(&path).unwrap_or_default();
        let changed = difference::difference(&committed, &printed);
        assert!(committed == printed, "{file} is stale: run `cargo xtask write completions`\n{changed}");
    }
}

/// Returns the completions that bash offers for each of these command lines.
fn offered(lines: &[&str]) -> Vec<Vec<String>> {
    let script = r#"source "$1"; shift
        for COMP_LINE; do
            COMP_POINT=${#COMP_LINE} COMP_WORDBREAKS=$' \t\n:='
            _plegctl
            (IFS='|'; echo "${COMPREPLY[*]}")
        done"#;
    let folder = Path::new(env!("CARGO_BIN_EXE_plegctl")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), env::var("PATH").unwrap_or_default());
    let completions = Path::new(env!("CARGO_MANIFEST_DIR")).join("completions/plegctl.bash");
    let words = [&["-c", script, "bash", completions.to_str().unwrap()], lines].concat();
    let text = plegctl::Invocation::program("bash", &words).env("PATH", path).run().stdout;
    text.lines().map(|line| line.split('|').map(|word| word.trim_end().to_owned()).collect()).collect()
}

#[test]
fn bash_completes_scenarios_ids_kinds_and_pages() {
    let offered = offered(&[
        "plegctl health -r sim:hung-",
        "plegctl explain d0",
        "plegctl sim describe sta",
        "plegctl relist --sort-by d",
        "plegctl schema relistr",
        "plegctl docs kubeletplegun",
    ]);
    assert_eq!(offered[0], ["hung-container", "hung-list", "hung-two-pods"]);
    assert!(offered[1].contains(&"D01".to_owned()), "{offered:?}");
    assert_eq!(offered[2], ["stale-kubelet", "stale-static-pod"]);
    assert_eq!(offered[3], ["duration"]);
    assert_eq!(offered[4], ["RelistReport"]);
    assert_eq!(offered[5], ["KubeletPlegUnhealthy"]);
}

#[test]
fn name_of_a_file_is_never_executed_by_bash() {
    if !terminal::has_tmux() {
        return;
    }
    let shell = terminal::Shell::open((100, 24));
    fs::write(shell.path("report$(touch pwned)`touch pwned`;touch pwned;"), "x").unwrap();
    let folder = Path::new(env!("CARGO_BIN_EXE_plegctl")).parent().unwrap().display().to_string();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("completions/plegctl.bash");
    let here = shell.path("");
    shell.run(&format!("cd {here}; PATH={folder}:$PATH; source {}", script.display()));
    let lines = ["plegctl health --from rep", "plegctl capture ls rep", "plegctl health -r capture:rep"];
    for (number, line) in lines.into_iter().enumerate() {
        shell.run("clear");
        shell.types(line);
        shell.press(&["Tab"]);
        shell.run("");
        shell.run(&format!("echo ended-$(({number} + 40))"));
        let screen = shell.shows(&format!("ended-{}", number + 40));
        assert!(!Path::new(&shell.path("pwned")).exists(), "{line}: {screen}");
        assert!(
            screen.contains(r"report\$\("),
            "bash completes a file with its own quotes: {line}: {screen}"
        );
    }
}

#[test]
fn name_of_a_file_is_quoted_by_zsh_fish_and_elvish_at_the_first_tab() {
    if !terminal::has_tmux() {
        return;
    }
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("completions").display().to_string();
    let zsh =
        format!("PROMPT='zsh> '; fpath=({scripts} $fpath); autoload -Uz compinit; compinit -u -D; clear");
    let fish = format!("source {scripts}/plegctl.fish; function fish_prompt; echo 'fish> '; end; clear");
    let elvish = fs::read_to_string(format!("{scripts}/plegctl.elv")).unwrap()
        + "set edit:prompt = { put 'elvish> ' }\n";
    for (name, file, settings, start, quoted) in [
        ("zsh", ".zshrc", zsh, "ZDOTDIR=. zsh -i", r"\$\(touch\ pwned\)\`touch"),
        ("fish", "config", fish, "fish --no-config -C 'source config'", r"\$\(touch\ pwned\)`touch"),
        ("elvish", "config", elvish, "elvish -rc config", "$(touch pwned)`touch"),
    ] {
        if env::split_paths(&env::var_os("PATH").unwrap()).all(|folder| !folder.join(name).exists()) {
            skip(&format!("{name} is not installed"));
            continue;
        }
        let shell = terminal::Shell::open((120, 24));
        fs::write(shell.path("report$(touch pwned)`touch pwned`;touch pwned;\"'q"), "x").unwrap();
        fs::write(shell.path(file), settings).unwrap();
        let folder = Path::new(env!("CARGO_BIN_EXE_plegctl")).parent().unwrap().display().to_string();
        let here = shell.path("");
        shell.run(&format!("cd {here}; exec env HOME=. XDG_CONFIG_HOME=. PATH={folder}:$PATH {start}"));
        shell.shows(&format!("{name}>"));
        for (line, answer) in [
            ("plegctl health --from rep", "it is not a HealthReport"),
            ("plegctl capture ls rep", "is not a capture"),
        ] {
            shell.types(line);
            shell.press(&["Tab"]);
            shell.shows(&format!("report{quoted}"));
            // In elvish, the first one accepts the word.
            shell.press(&["Enter", "Enter"]);
            let screen = shell.shows(answer);
            assert!(!Path::new(&shell.path("pwned")).exists(), "{name}, {line}: {screen}");
            shell.run("clear");
            shell.until("an empty screen", |screen| !screen.contains(answer));
        }
    }
}

#[test]
fn man_pages_make_a_readable_directory_and_none_behind_the_link_of_another_user() {
    let place = TempDir::new();
    let (shared, victim) = (place.path().join("shared"), place.path().join("victim"));
    for directory in [&shared, &victim] {
        fs::create_dir(directory).unwrap();
    }
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
    symlink(&victim, shared.join("link")).unwrap();
    let output = plegctl::plegctl(&["man", shared.join("link/man/man1").to_str().unwrap()]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("`link` in this path is a symbolic link in a directory that"), "{output}");
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 0, "{output}");
    symlink("victim", place.path().join("own")).unwrap();
    let output = plegctl::plegctl(&["man", place.path().join("own/man/man1").to_str().unwrap()]);
    assert_eq!(output.code, Some(0), "{output}");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&victim.join("man/man1")), mode(&victim), "{output}");
    assert!(victim.join("man/man1/plegctl.1").exists());
}

#[test]
fn there_is_a_man_page_for_each_command() {
    let folder = env::temp_dir().join(format!("plegctl-man-{}", std::process::id()));
    let output = plegctl::plegctl(&["man", folder.to_str().unwrap()]);
    assert_eq!(output.code, Some(0), "{output}");
    for page in ["plegctl.1", "plegctl-relist.1", "plegctl-watch.1", "plegctl-diff.1", "plegctl-capture-ls.1"]
    {
        let text = fs::read_to_string(folder.join(page)).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{page}");
        assert!(text.contains(".SH EXAMPLES\n.nf\n  # "), "{page}: {text}");
    }
    fs::remove_dir_all(&folder).unwrap();
}
