//! The remote command line, and the wrapper that makes a remote command end with us.
//!
//! sshd kills nothing when a connection goes: a silent command would run on for ever. It does close the command's standard
//! input. So a watcher, a second process in the command's process group, waits for the end of that, and then ends the group.
//! The command itself keeps its process, so exit status, signal and both outputs are its own. POSIX sh alone (dash, bash,
//! busybox ash), and free of `'`, `!`, backslashes and line feeds, so that every login shell hands it on unchanged.
//!
//! What it cannot reach: a command that became another user (sudo, su) or left the process group (setsid, a daemon). What an
//! ended command left running goes on, as it does under plain ssh.

use crate::action::ssh::SshAction;
use crate::policy::rules::Tie;

/// The watcher, started twice removed so that the command never sees a child it did not start. At the end of fd 3, unless the
/// command has ended by then: TERM, half a second, KILL. A group of another number than the command's is never signalled.
const WATCH: &str = concat!(
    r#"( ( trap "" HUP INT TERM; read -r x <&3; exec 3<&-; "#,
    r#"k() { kill -$1 -$$ || kill -$1 $$; }; "#,
    r#"if kill -0 $$ || [ -d /proc/$$ ]; then k TERM; sleep 0.5 || sleep 1; k KILL; fi "#,
    r#") & ) >/dev/null 2>&1; "#,
);

/// Takes the input, `$2` bytes, to a file without a name before the command starts: the watcher needs the stream for itself.
const TAKE: &str = concat!(
    r#"f=; for d in /dev/shm "${TMPDIR:-/tmp}"; do f=$(mktemp "$d/tidegate.XXXXXXXXXX" 2>/dev/null) && break; done; "#,
    r#"[ -n "$f" ] || { echo "tidegate: no room for the input of the command in /dev/shm or /tmp" >&2; exit 125; }; "#,
    r#"head -c "$2" <&3 >"$f"; exec <"$f"; n=$(wc -c <"$f"); rm -f "$f"; "#,
    r#"[ "$n" -eq "$2" ] || { echo "tidegate: the input of the command did not arrive whole" >&2; exit 125; }; "#,
);

/// The line that the login shell of the remote user is given.
pub(super) fn command_line(action: &SshAction, tie: Tie) -> String {
    let command = action.command_line();
    match tie {
        Tie::None => command,
        Tie::Stdin => tied(&command, action.stdin.len()),
    }
}

fn tied(command: &str, stdin_bytes: usize) -> String {
    let take = if stdin_bytes == 0 { "" } else { TAKE };
    let script = format!(r#"exec 3<&0 </dev/null; {take}{WATCH}exec 3<&-; eval "$1""#);
    format!("exec sh -c '{script}' sh {} {stdin_bytes}", quoted(command))
}

/// One word for a POSIX shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::path::Path;

    use super::*;
    use crate::executor::ssh::testing::{spawn_with_stdin, status_of};
    use crate::process::Status;
    use crate::process::testing::{Told, read_all};

    /// The shells of this machine that can be the remote one: dash or bash as sh, and busybox where it is installed.
    fn shells() -> Vec<&'static str> {
        let known = ["/bin/sh", "/bin/dash", "/bin/bash", "/bin/zsh", "/bin/busybox"];
        known.into_iter().filter(|shell| Path::new(shell).exists()).collect()
    }

    /// What a login shell makes of the line: output, errors, end.
    #[track_caller]
    fn check(command: &str, stdin: &[u8], stdout: &str, status: Status) {
        for shell in shells() {
            let line = tied(command, stdin.len());
            let applet: &[&str] = if shell.ends_with("busybox") { &[shell, "sh"] } else { &[shell] };
            // Whoever runs the tests in the background of a script has SIGINT ignored, and so would the shell.
            let begin = ["env", "--default-signal=INT"];
            let mut child = spawn_with_stdin(&[&begin[..], applet, &["-c", &line]].concat());
            let mut input = std::fs::File::from(child.stdin.take().unwrap());
            input.write_all(stdin).unwrap();
            let text = read_all(child.stdout.take().unwrap());
            let errors = read_all(child.stderr.take().unwrap());
            assert_eq!((text.as_str(), errors.as_str()), (stdout, ""), "{shell}: {command}");
            assert_eq!(status_of(&mut child), Some(status), "{shell}: {command}");
            drop(input);
        }
    }

    #[test]
    fn the_command_is_as_if_nobody_had_wrapped_it() {
        check("echo a; exit 7", b"", "a\n", Status::Exited(7));
        check("exec cat", b"", "", Status::Exited(0));
        check("exec cat", b"a\nb", "a\nb", Status::Exited(0));
        check("exec sh -c 'kill -9 $$'", b"", "", Status::Signalled(9));
        check("exec printf %s 'it'\\''s'", b"", "it's", Status::Exited(0));
        // It has no child that it did not start.
        check(r#"read -r c </proc/$$/task/$$/children; echo "[$c]""#, b"", "[]\n", Status::Exited(0));
        // SIGINT has its ordinary meaning.
        check("kill -INT $$", b"", "", Status::Signalled(2));
    }

    #[test]
    fn nothing_of_it_is_special_in_a_login_shell() {
        for bytes in [0, 1] {
            let line = tied("true", bytes);
            let script = line.strip_prefix("exec sh -c '").unwrap().split('\'').next().unwrap();
            assert!(!script.contains(['\'', '!', '\\', '\n']), "{script}");
        }
    }

    #[test]
    fn the_end_of_its_input_ends_the_whole_group() {
        for trap in ["", "trap '' TERM HUP INT;"] {
            let mut told = Told::new();
            let path = told.path();
            let line = tied(&format!("{trap} sleep 300 & echo $! >{path}; echo $$ >{path}; while :; do sleep 1; done"), 0);
            let mut child = spawn_with_stdin(&["/bin/sh", "-c", &line]);
            let family = [told.process(), told.process()];
            drop::<Option<OwnedFd>>(child.stdin.take());
            assert!(family.iter().all(crate::process::testing::Known::ends), "{trap}");
        }
    }

    #[test]
    fn an_input_that_does_not_arrive_whole_starts_nothing() {
        let mut child = spawn_with_stdin(&["/bin/sh", "-c", &tied("echo started", 10)]);
        let mut input = std::fs::File::from(child.stdin.take().unwrap());
        input.write_all(b"123").unwrap();
        drop(input);
        assert_eq!(read_all(child.stdout.take().unwrap()), "");
        assert_eq!(read_all(child.stderr.take().unwrap()), "tidegate: the input of the command did not arrive whole\n");
    }
}
