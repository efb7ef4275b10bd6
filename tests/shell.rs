//! Command lines of remote commands, read back by real shells: whatever the text, it arrives as exactly one argument.

use std::fs;
use std::process::{Command, Output};

use serde_json::json;
use tidegate::action::shell::push_word;
use tidegate::action::ssh::{SshAction, SshTemplate, SshWritten};
use tidegate::action::template::Arguments;
use tidegate::action::template::argv::Dash;

use crate::kit::dir::Dir;

/// Debian's `sh` is dash, the strictest of the lot; bash reads more into a line than any other.
const SHELLS: [&str; 2] = ["sh", "bash"];
/// Bytes mean characters in the one and only themselves in the other.
const LOCALES: [&str; 2] = ["C.UTF-8", "C"];
const PRINT_ARGUMENTS: &str = r#"printf '%s\0' "$@""#;

/// Command lines of the field reports (R074, R075), and what shells are known to read as something else.
const FIXED: &[&str] = &[
    "",
    " ",
    "note\ntouch pwned",
    "note\r\ntouch pwned",
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned",
    "uptime; touch x",
    "uptime\ntouch x",
    "uptime $(touch x)",
    "uptime && x",
    "uptime > x",
    "uptime & x",
    "| sh",
    "'",
    "''",
    "'; touch pwned; '",
    "'\\''",
    "\"",
    "\\",
    "\\\\",
    "\\n",
    "ends with \\",
    "ends with a line feed\n",
    "\n",
    "-n",
    "-rf",
    "--",
    "-",
    "~",
    "~root",
    "~/x",
    "=ls",
    "A=b",
    "A=~/b",
    "!!",
    "!x",
    "^a^b",
    "#comment",
    "*",
    "/*",
    "?",
    "[a-z]",
    "{a,b}",
    "{1..3}",
    "$HOME",
    "${HOME}",
    "$$",
    "$'a'",
    "$\"a\"",
    "<(true)",
    "a\tb",
    "\u{1b}[2J",
    "naïve",
    "日本語",
    "🦀",
    "e\u{301}",
    "\u{85}\u{2028}\u{2029}\u{feff}",
    "\u{202e}",
    "\u{fffd}\u{10ffff}",
];

/// xorshift64*: the same texts on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end
    }

    fn text(&mut self) -> String {
        (0..self.below(24)).map(|_| self.char()).collect()
    }

    fn char(&mut self) -> char {
        const SHARP: &[u8] = b"'\"\\`$(){}[]<>|&;*?~!#^=%@:,+-_./ \n\r\t\0";
        match self.below(4) {
            0 => char::from(SHARP[self.below(SHARP.len())]),
            1 => char::from(self.below(0x80) as u8),
            2 => char::from_u32(self.below(0x800) as u32).unwrap_or('é'),
            _ => char::from_u32(self.below(0x11_0000) as u32).unwrap_or('日'),
        }
    }
}

/// Every control character on its own and inside, the fixed ones, and a thousand random ones; some hold NUL.
fn texts() -> Vec<String> {
    let mut texts: Vec<String> = FIXED.iter().map(|text| (*text).to_owned()).collect();
    texts.extend((0..=0x9f_u8).flat_map(|byte| [char::from(byte).to_string(), format!("a{}'b", char::from(byte))]));
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    texts.extend((0..1000).map(|_| random.text()));
    texts
}

/// A command that prints the arguments it is started with, each with a NUL behind it.
fn printer(list: &[String]) -> Result<SshAction, String> {
    let written = SshWritten {
        host: "web1".to_owned(),
        argv: ["sh", "-c", PRINT_ARGUMENTS, "sh", "{list}"].map(str::to_owned).to_vec(),
        env: Vec::new(),
        cwd: None,
        stdin: None,
        dash: Dash::Allowed,
    };
    let template = SshTemplate::new(&written).unwrap();
    template.fill(&Arguments::new(&json!({ "list": list }).into())).map_err(|error| error.to_string())
}

/// Runs a line as sshd has the user's shell run it: as the one operand of `-c`. No text may leave a file behind.
#[track_caller]
fn run(shell: &str, locale: &str, line: &str) -> Output {
    let home = Dir::new();
    let output = Command::new(shell).args(["-c", line]).env("LC_ALL", locale).current_dir(home.path()).output().unwrap();
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0, "{shell} in {locale}: {line:?}");
    output
}

#[track_caller]
fn check(line: &str, want: &[String]) {
    for (shell, locale) in SHELLS.iter().flat_map(|shell| LOCALES.map(|locale| (shell, locale))) {
        let output = run(shell, locale, line);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{shell}: {line:?}");
        let mut got: Vec<&[u8]> = output.stdout.split(|byte| *byte == 0).collect();
        assert_eq!(got.pop(), Some(&b""[..]), "{shell}: {line:?}");
        let got: Vec<_> = got.into_iter().map(String::from_utf8_lossy).collect();
        assert_eq!(got, want, "{shell} in {locale}: {line:?}");
    }
}

#[test]
fn r074_any_text_arrives_as_exactly_one_argument_or_is_refused() {
    let (clean, with_nul): (Vec<String>, Vec<String>) = texts().into_iter().partition(|text| !text.contains('\0'));
    assert!(clean.len() > 1000 && with_nul.len() > 50, "{} {}", clean.len(), with_nul.len());
    for text in with_nul {
        let error = printer(std::slice::from_ref(&text)).unwrap_err();
        assert!(error.contains("without NUL"), "{text:?}: {error}");
    }
    for some in clean.chunks(150) {
        let line = printer(some).unwrap().command_line();
        check(&line, some);
        // As a wrapper carries it: the whole line is one word of another line.
        let mut wrapped = "exec sh -c ".to_owned();
        push_word(&line, &mut wrapped);
        check(&wrapped, some);
    }
}

#[test]
fn r074_values_of_the_environment_arrive_whole() {
    let clean: Vec<String> = texts().into_iter().filter(|text| !text.contains('\0')).collect();
    for some in clean.chunks(150) {
        let variables = some.iter().enumerate().map(|(index, text)| (format!("V{index}"), text.clone()));
        let names: Vec<String> = (0..some.len()).map(|index| format!("\"$V{index}\"")).collect();
        let script = format!(r"printf '%s\0' {}", names.join(" "));
        let action =
            SshAction { argv: vec!["sh".into(), "-c".into(), script], env: variables.collect(), ..printer(&[]).unwrap() };
        check(&action.command_line(), some);
    }
}

#[test]
fn the_working_directory_is_that_folder_and_no_other() {
    let dir = Dir::new();
    for name in ["plain", "-", "~", "a b", "it's", "$(touch pwned)", "line\nfeed", "ends\n", "é🦀", "*", "\\", "\u{1b}"] {
        let folder = dir.join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("here"), name).unwrap();
        let cwd = Some(folder.to_str().unwrap().to_owned());
        let action = SshAction { argv: vec!["cat".into(), "here".into()], cwd, ..printer(&[]).unwrap() };
        for shell in SHELLS {
            let output = run(shell, "C.UTF-8", &action.command_line());
            assert_eq!(output.stdout, name.as_bytes(), "{shell} {name:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

#[test]
fn without_its_working_directory_nothing_runs() {
    let action = SshAction { cwd: Some("/no/such/folder".to_owned()), ..printer(&["ran".to_owned()]).unwrap() };
    for shell in SHELLS {
        let output = run(shell, "C", &action.command_line());
        assert!(!output.status.success() && output.stdout.is_empty(), "{shell}: {output:?}");
    }
}

#[test]
fn the_program_takes_the_place_of_the_shell() {
    let pid = |shell| {
        let action = SshAction { argv: ["sh", "-c", "echo $$"].map(str::to_owned).to_vec(), ..printer(&[]).unwrap() };
        let line = format!("echo $$; {}", action.command_line());
        String::from_utf8(run(shell, "C", &line).stdout).unwrap()
    };
    for shell in SHELLS {
        let lines = pid(shell);
        let (outer, inner) = lines.trim_end().split_once('\n').unwrap();
        assert_eq!(outer, inner, "{shell}");
    }
}
