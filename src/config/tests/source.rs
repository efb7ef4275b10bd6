//! Where credentials come from: what is said beside a program, and what stands nowhere else.

use std::time::Duration;

use super::*;
use crate::executor::credential::Helper;

/// The helper of `FULL`.
pub(super) fn minted() -> Helper {
    let env = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/"), ("LANG", "C.UTF-8")];
    Helper {
        argv: ["sh", "/x"].map(str::to_owned).to_vec(),
        env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        inherit: vec!["XDG_RUNTIME_DIR".to_owned()],
        timeout: Duration::from_millis(2500),
        cache: Duration::ZERO,
    }
}

/// A credential whose `from` begins in column 29 of line 1, and a tool that uses it.
fn from(members: &str) -> String {
    format!(
        r#"{{"credentials":{{"k":{{"from":{{{members}}},"for":[{{"host":"a.example"}}]}}}},
"tools":[{{"name":"t","description":"d","http":{{"url":"https://a.example/","credential":"k"}}}}]}}"#
    )
}

#[test]
fn a_helper_has_its_defaults_and_its_home() {
    let config = Config::parse(Path::new("c.json"), &from(r#""command":["/bin/sh","{x}","$y"]"#), &|name| {
        (name == "HOME").then(|| "/home/of".into())
    });
    let [(_, Source::Command(helper))] = &config.unwrap().credentials[..] else { panic!() };
    assert_eq!(helper.argv, ["/bin/sh", "{x}", "$y"], "a brace is a brace");
    assert_eq!((helper.timeout, helper.cache), (Duration::from_secs(10), Duration::from_secs(300)));
    assert!(helper.inherit.is_empty());
    assert!(helper.env.contains(&("HOME".to_owned(), "/home/of".to_owned())), "{:?}", helper.env);
}

#[test]
fn sources_are_said_whole() {
    for (members, lines) in [
        (
            r#""command":[]"#,
            &["1:40: /credentials/k/from/command: expected a program and its arguments, got an empty array"][..],
        ),
        (r#""command":[""]"#, &["1:41: /credentials/k/from/command/0: expected an absolute path or a bare name, got \"\""]),
        (
            r#""command":["./x"]"#,
            &["1:41: /credentials/k/from/command/0: expected an absolute path or a bare name, got \"./x\""],
        ),
        (
            r#""command":["sh","a\u0000","\u0000"]"#,
            &[
                "1:46: /credentials/k/from/command/1: expected an argument without NUL",
                "1:56: /credentials/k/from/command/2: expected an argument without NUL",
            ],
        ),
        (
            r#""command":["sh"],"inherit":["A","B C","TIDEGATE_CALL"]"#,
            &[
                "1:62: /credentials/k/from/inherit/1: expected the name of an environment variable",
                "1:68: /credentials/k/from/inherit/2: names beginning with TIDEGATE_ are the gateway's own",
            ],
        ),
        (
            r#""command":["sh"],"cache_s":-1,"timeout_s":0"#,
            &[
                "1:57: /credentials/k/from/cache_s: expected seconds from 0 to 86400, got -1",
                "1:72: /credentials/k/from/timeout_s: expected seconds from 0.001 to 3600, got 0",
            ],
        ),
        (
            r#""env":"A","cache_s":1,"inherit":[]"#,
            &[
                "1:40: /credentials/k/from/cache_s: \"cache_s\" is for \"command\" only",
                "1:52: /credentials/k/from/inherit: \"inherit\" is for \"command\" only",
            ],
        ),
        (
            r#""systemd":"../x""#,
            &[
                "1:40: /credentials/k/from/systemd: expected the name of a systemd credential (one file name without \":\"), got \"../x\"",
            ],
        ),
        (r#""comand":["sh"]"#, &["1:30: /credentials/k/from/comand: unknown key, nearest is \"command\""]),
    ] {
        check_errors(&from(members), lines);
    }
}

#[test]
fn a_missing_program_is_a_warning() {
    let warning = "1:41: /credentials/k/from/command/0: no program \"no-such-helper\" in /usr/local/bin:/usr/bin:/bin";
    check_warnings(&from(r#""command":["no-such-helper"]"#), &[warning]);
    check_warnings(&from(r#""command":["sh"]"#), &[]);
}
