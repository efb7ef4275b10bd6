//! `tidegate approvals` where no gateway runs: what it says, its exit codes, and what it leaves behind.

use std::fs::{self, File, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use crate::kit::dir::Dir;

/// A configuration with a state folder of its own.
struct Bench {
    dir: Dir,
}

impl Bench {
    fn new() -> Bench {
        let dir = Dir::new();
        let state = dir.join("state");
        dir.write("config.json", format!(r#"{{"state_dir": "{}"}}"#, state.display()));
        Bench { dir }
    }

    /// Exit code, stdout, and what stderr begins with.
    #[track_caller]
    fn check(&self, arguments: &[&str], code: i32, stdout: &str, stderr: &str) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("approvals").arg("--config").arg(self.dir.join("config.json")).args(arguments);
        let output = command.env_clear().stdin(Stdio::null()).output().unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!((output.status.code(), out.as_str()), (Some(code), stdout), "{arguments:?}: {err}");
        assert!(err.starts_with(stderr) && err.is_empty() == stderr.is_empty(), "{arguments:?}: {err}");
    }
}

#[test]
fn nothing_is_open_and_nothing_is_made() {
    let bench = Bench::new();
    for list in [&[][..], &["list"]] {
        bench.check(list, 0, "no question is open\n", "");
    }
    bench.check(&["--json"], 0, "", "");
    for arguments in [&["allow", "0123abcd"][..], &["allow", "0123abcd", "--once"], &["deny", "0123abcd"]] {
        bench.check(arguments, 1, "", "tidegate: no question 0123abcd is open\n");
    }
    assert!(!bench.dir.join("state").exists());
}

#[test]
fn a_wrong_command_line_or_configuration_is_said() {
    let bench = Bench::new();
    bench.check(&["approve"], 2, "", "tidegate: approvals: expected list, allow ID or deny ID, got \"approve\"\n");
    bench.check(&["allow"], 2, "", "tidegate: approvals allow needs the id of a question\n");
    bench.check(&["deny", "x"], 2, "", "tidegate: approvals: expected the id of a question, eight lower-case");
    bench.check(&["deny", "0123abcd", "--once"], 2, "", "tidegate: --once is of approvals allow\n");
    bench.check(&["allow", "0123abcd", "--json"], 2, "", "tidegate: --json is of approvals list\n");
    bench.dir.write("config.json", "{");
    for arguments in [&[][..], &["allow", "0123abcd"]] {
        bench.check(arguments, 78, "", "tidegate: ");
    }
}

#[test]
fn what_the_dead_left_is_removed_and_an_unsafe_folder_is_not_used() {
    let bench = Bench::new();
    let folder = bench.dir.join("state/approvals");
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
    let [left, foreign] = [format!("1-{}.sock", "0a".repeat(16)), "x.sock".to_owned()].map(|name| folder.join(name));
    let opened = File::open(&folder).unwrap();
    for path in [&left, &foreign] {
        // The whole path may be too long for an address.
        let name = path.file_name().unwrap().to_str().unwrap();
        drop(UnixListener::bind(format!("/proc/self/fd/{}/{name}", opened.as_raw_fd())).unwrap());
    }
    bench.check(&[], 0, "no question is open\n", "");
    assert!(!left.exists() && foreign.exists());
    fs::set_permissions(&folder, Permissions::from_mode(0o770)).unwrap();
    let expected = format!("tidegate: {} cannot be used: others may write it (mode 0770)", folder.display());
    for arguments in [&[][..], &["allow", "0123abcd"]] {
        bench.check(arguments, 74, "", &expected);
    }
}
