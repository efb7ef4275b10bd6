//! Which file a command's first word means, and in plain words why a start failed.
//!
//! A bare name is looked up in the child's PATH, never in ours and never in the working directory; a relative path is
//! refused. Nothing here starts anything.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Characters shown of a name or path.
const SHOWN: usize = 200;

/// The file that `word` means for a child whose PATH is `path`; the error says where it was looked for.
pub(super) fn find(word: &str, path: Option<&str>) -> Result<PathBuf, String> {
    let shown = quoted(word);
    match word {
        "" => return Err("expected a program, got an empty name".to_owned()),
        absolute if absolute.starts_with('/') => return Ok(PathBuf::from(absolute)),
        relative if relative.contains('/') => {
            return Err(format!("expected an absolute path or a bare name, got {shown}"));
        }
        _ => {}
    }
    let path = path.unwrap_or_default();
    let folders = path.split(':').filter(|folder| folder.starts_with('/'));
    let candidates: Vec<PathBuf> = folders.map(|folder| Path::new(folder).join(word)).collect();
    if let Some(program) = candidates.iter().find(|candidate| is_program(candidate)) {
        return Ok(program.clone());
    }
    match candidates.iter().find(|candidate| candidate.exists()) {
        Some(found) => Err(format!("{} is not an executable file", quoted_path(found))),
        None if candidates.is_empty() => Err(format!("{shown} not found: the command's PATH names no absolute folder")),
        None => Err(format!("{shown} not found in the command's PATH {}", quoted(path))),
    }
}

fn is_program(candidate: &Path) -> bool {
    fs::metadata(candidate).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Why the system refused to start `program` in `cwd`.
pub(super) fn explain(program: &Path, cwd: &Path, error: &io::Error) -> String {
    match fs::metadata(cwd) {
        Err(cause) => return format!("working directory {}: {}", quoted_path(cwd), reason(&cause)),
        Ok(folder) if !folder.is_dir() => return format!("working directory {} is not a folder", quoted_path(cwd)),
        Ok(_) => {}
    }
    let shown = quoted_path(program);
    match (error.kind(), fs::metadata(program)) {
        (io::ErrorKind::NotFound, Ok(_)) => {
            format!("{shown} exists, but the interpreter or loader it names was not found")
        }
        (io::ErrorKind::NotFound, Err(_)) => format!("{shown} not found"),
        (io::ErrorKind::PermissionDenied, Ok(file)) if !file.is_file() => format!("{shown} is not a file"),
        (io::ErrorKind::PermissionDenied, Ok(file)) if file.permissions().mode() & 0o111 == 0 => {
            format!("{shown} is not executable")
        }
        (io::ErrorKind::PermissionDenied, _) => {
            format!("permission denied for {shown}, or for the working directory {}", quoted_path(cwd))
        }
        (io::ErrorKind::ArgumentListTooLong, _) => {
            "arguments and environment together are longer than the system takes".to_owned()
        }
        _ => format!("{shown}: {}", reason(error)),
    }
}

/// What happened, in lower case and without the number.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "not found".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

fn quoted_path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

fn quoted(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_find(word: &str, path: Option<&str>, want: Result<&str, &str>) {
        let found = find(word, path);
        assert_eq!(found.as_deref().map_err(String::as_str), want.map(Path::new), "{word:?} in {path:?}");
    }

    #[test]
    fn a_name_means_what_the_childs_path_says() {
        check_find("/any/where", None, Ok("/any/where"));
        check_find("sh", Some("/nowhere:/bin"), Ok("/bin/sh"));
        check_find("", Some("/bin"), Err("expected a program, got an empty name"));
        check_find("./sh", Some("/bin"), Err("expected an absolute path or a bare name, got \"./sh\""));
        check_find("sh", None, Err("\"sh\" not found: the command's PATH names no absolute folder"));
        check_find("sh", Some(":.:bin"), Err("\"sh\" not found: the command's PATH names no absolute folder"));
        check_find("sh", Some("/nowhere"), Err("\"sh\" not found in the command's PATH \"/nowhere\""));
        check_find("passwd", Some("/etc"), Err("\"/etc/passwd\" is not an executable file"));
    }
}
