//! A password, from where the settings say that there is one. It is never printed.

use std::fs::File;
use std::io::Read;

use crate::protocol::Settings;

/// No password is longer, in bytes.
const LONGEST: u64 = 4096;

/// The password; `None` where the settings name none.
///
/// # Errors
/// When the variable is not set, or the file cannot be read or is too long. The message holds names only.
pub(crate) fn password(settings: &Settings) -> Result<Option<String>, String> {
    if let Some(name) = &settings.password_env {
        let value = std::env::var(name)
            .map_err(|_| format!("password_env: {name} is not set, or is no UTF-8"))?;
        return Ok(Some(value));
    }
    let Some(path) = &settings.password_file else {
        return Ok(None);
    };
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(LONGEST + 1).read_to_string(&mut text))
        .map_err(|error| format!("password_file: {}: {error}", path.display()))?;
    if text.len() as u64 > LONGEST {
        let path = path.display();
        return Err(format!(
            "password_file: {path} is longer than {LONGEST} bytes"
        ));
    }
    let end = text.strip_suffix('\n').unwrap_or(&text);
    Ok(Some(end.strip_suffix('\r').unwrap_or(end).to_owned()))
}
