//! Which colours a terminal has, on which background, and which of them are used.
//!
//! No two of a palette meet in any common kind of colour blindness. Where the program chooses the colour itself (256 and more)
//! it has a contrast of 4.5 to 1 against the background, or against both black and white where that is not known (of the 256
//! the nearest); of the terminal's own 16 those are used that common schemes keep readable.

use ratatui::style::Color;

/// When colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorChoice {
    /// Unless `NO_COLOR` is set or the terminal is dumb or a VT.
    #[default]
    Auto,
    Always,
    Never,
}

impl ColorChoice {
    /// Resolves the choice from the environment (`NO_COLOR` non-empty, `TERM`).
    #[must_use]
    pub fn resolve(self, no_color: Option<&str>, term: Option<&str>) -> bool {
        match self {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            // A VT takes what is sent for a colour for blinking.
            ColorChoice::Auto => {
                let has_none = |term: &str| term == "dumb" || is_vt(term);
                no_color.is_none_or(str::is_empty) && !term.is_some_and(has_none)
            }
        }
    }
}

/// What the colours must stand out from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Background {
    /// What `COLORFGBG` says, else colours that can be read on both.
    #[default]
    Auto,
    Dark,
    Light,
}

impl Background {
    /// Resolves the choice from `COLORFGBG` (`foreground;background`, colours 7 and 9 to 15 are light).
    #[must_use]
    pub fn resolve(self, colors: Option<&str>) -> Self {
        let said = colors
            .and_then(|text| text.rsplit(';').next())
            .and_then(|number| number.parse::<u8>().ok());
        match (self, said) {
            (Background::Auto, Some(7 | 9..=15)) => Background::Light,
            (Background::Auto, Some(0..=6 | 8)) => Background::Dark,
            (chosen, _) => chosen,
        }
    }
}

/// How many colours a terminal has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// Its own 16.
    #[default]
    Own,
    /// The 256 that are the same everywhere.
    Fixed,
    /// Any.
    Any,
}

impl Depth {
    /// Only what is announced, by `TERM` or `COLORTERM`.
    #[must_use]
    pub fn announced(term: Option<&str>, color_term: Option<&str>) -> Self {
        match color_term {
            Some("truecolor" | "24bit") => Self::Any,
            _ if term.is_some_and(|term| term.contains("256color")) => Self::Fixed,
            _ => Self::Own,
        }
    }
}

/// Blue for good, orange for stopped, another one for code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Palette {
    pub good: Color,
    pub bad: Color,
    pub code: Color,
}

impl Palette {
    pub(super) fn choose(background: Background, depth: Depth) -> Self {
        let [good, bad, code] = match (depth, background) {
            (Depth::Own, Background::Dark) => [Color::Cyan, Color::Yellow, Color::Green],
            (Depth::Own, Background::Light) => [Color::Blue, Color::Red, Color::Magenta],
            (Depth::Own, Background::Auto) => {
                [Color::LightBlue, Color::LightRed, Color::LightMagenta]
            }
            (Depth::Fixed, Background::Dark) => [74, 214, 175].map(Color::Indexed),
            (Depth::Fixed, Background::Light) => [25, 130, 89].map(Color::Indexed),
            (Depth::Fixed, Background::Auto) => [31, 130, 132].map(Color::Indexed),
            (Depth::Any, Background::Dark) => [
                Color::Rgb(86, 180, 233),
                Color::Rgb(230, 159, 0),
                Color::Rgb(204, 121, 167),
            ],
            (Depth::Any, Background::Light) => [
                Color::Rgb(0, 90, 150),
                Color::Rgb(175, 70, 0),
                Color::Rgb(140, 50, 100),
            ],
            (Depth::Any, Background::Auto) => [
                Color::Rgb(0, 124, 190),
                Color::Rgb(182, 95, 0),
                Color::Rgb(168, 88, 150),
            ],
        };
        Self { good, bad, code }
    }
}

/// Whether a terminal shows 7 bits only: one whose font has no marks (the Linux console), a VT, or a locale of another
/// encoding. A locale that is not set says nothing.
#[must_use]
pub fn is_seven_bits(term: Option<&str>, locale: Option<&str>) -> bool {
    let plain = term.is_some_and(|term| term == "linux" || is_vt(term));
    let other = locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        !locale.is_empty() && !locale.contains("utf-8") && !locale.contains("utf8")
    });
    plain || other
}

fn is_vt(term: &str) -> bool {
    let number = term.strip_prefix("vt");
    number.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_follows_choice_then_environment() {
        assert!(ColorChoice::Auto.resolve(None, Some("xterm")));
        assert!(ColorChoice::Auto.resolve(Some(""), Some("xterm")));
        assert!(!ColorChoice::Auto.resolve(Some("1"), Some("xterm")));
        assert!(!ColorChoice::Auto.resolve(None, Some("dumb")));
        assert!(!ColorChoice::Auto.resolve(None, Some("vt220")));
        assert!(ColorChoice::Always.resolve(None, Some("vt220")));
        assert!(ColorChoice::Auto.resolve(None, Some("vte-256color")));
        assert!(ColorChoice::Always.resolve(Some("1"), Some("dumb")));
        assert!(!ColorChoice::Never.resolve(None, Some("xterm")));
    }

    #[test]
    fn the_background_is_what_the_terminal_says() {
        for (said, background) in [
            (None, Background::Auto),
            (Some("15;0"), Background::Dark),
            (Some("15;8"), Background::Dark),
            (Some("0;15"), Background::Light),
            (Some("0;default;7"), Background::Light),
            (Some("0;default"), Background::Auto),
            (Some("0;99"), Background::Auto),
            (Some("nonsense"), Background::Auto),
        ] {
            assert_eq!(Background::Auto.resolve(said), background, "{said:?}");
        }
        assert_eq!(Background::Dark.resolve(Some("0;15")), Background::Dark);
        assert_eq!(Background::Light.resolve(None), Background::Light);
    }

    #[test]
    fn marks_are_drawn_where_they_can_be_seen() {
        for (term, locale, seven) in [
            (Some("xterm"), None, false),
            (Some("xterm"), Some(""), false),
            (Some("xterm"), Some("C.UTF-8"), false),
            (Some("tmux-256color"), Some("de_DE.utf8"), false),
            (Some("xterm"), Some("UTF-8"), false),
            (Some("xterm"), Some("C"), true),
            (Some("xterm"), Some("POSIX"), true),
            (Some("xterm"), Some("de_DE.ISO-8859-1"), true),
            (Some("linux"), Some("C.UTF-8"), true),
            (Some("vt100"), None, true),
            (None, None, false),
        ] {
            assert_eq!(is_seven_bits(term, locale), seven, "{term:?} {locale:?}");
        }
    }

    /// The colours of a terminal's own 16 as five common schemes have them: xterm, the Linux console, GNOME, macOS, Windows.
    const SCHEMES: [[u32; 16]; 5] = [
        [
            0x000000, 0xcd0000, 0x00cd00, 0xcdcd00, 0x0000ee, 0xcd00cd, 0x00cdcd, 0xe5e5e5,
            0x7f7f7f, 0xff0000, 0x00ff00, 0xffff00, 0x5c5cff, 0xff00ff, 0x00ffff, 0xffffff,
        ],
        [
            0x000000, 0xaa0000, 0x00aa00, 0xaa5500, 0x0000aa, 0xaa00aa, 0x00aaaa, 0xaaaaaa,
            0x555555, 0xff5555, 0x55ff55, 0xffff55, 0x5555ff, 0xff55ff, 0x55ffff, 0xffffff,
        ],
        [
            0x171421, 0xc01c28, 0x26a269, 0xa2734c, 0x12488b, 0xa347ba, 0x2aa1b3, 0xd0cfcc,
            0x5e5c64, 0xf66151, 0x33d17a, 0xe9ad0c, 0x2a7bde, 0xc061cb, 0x33c7de, 0xffffff,
        ],
        [
            0x000000, 0x990000, 0x00a600, 0x999900, 0x0000b2, 0xb200b2, 0x00a6b2, 0xbfbfbf,
            0x666666, 0xe50000, 0x00d900, 0xe5e500, 0x0000ff, 0xe500e5, 0x00e5e5, 0xe5e5e5,
        ],
        [
            0x0c0c0c, 0xc50f1f, 0x13a10e, 0xc19c00, 0x0037da, 0x881798, 0x3a96dd, 0xcccccc,
            0x767676, 0xe74856, 0x16c60c, 0xf9f1a5, 0x3b78ff, 0xb4009e, 0x61d6d6, 0xf2f2f2,
        ],
    ];

    fn hex(color: Color, scheme: &[u32; 16]) -> u32 {
        let own = |number: usize| scheme[number];
        match color {
            Color::Red => own(1),
            Color::Green => own(2),
            Color::Yellow => own(3),
            Color::Blue => own(4),
            Color::Magenta => own(5),
            Color::Cyan => own(6),
            Color::LightRed => own(9),
            Color::LightBlue => own(12),
            Color::LightMagenta => own(13),
            Color::Rgb(red, green, blue) => u32::from_be_bytes([0, red, green, blue]),
            // The cube of 6 by 6 by 6.
            Color::Indexed(number @ 16..=231) => {
                let place = u32::from(number) - 16;
                let level = |step: u32| if step == 0 { 0 } else { 55 + 40 * step };
                (level(place / 36) << 16) | (level(place / 6 % 6) << 8) | level(place % 6)
            }
            other => panic!("no value of {other:?} is known here"),
        }
    }

    fn luminance(color: u32) -> f64 {
        let part = |shift: u32| {
            let value = f64::from((color >> shift) & 0xff) / 255.0;
            if value <= 0.03928 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * part(16) + 0.7152 * part(8) + 0.0722 * part(0)
    }

    fn contrast(one: u32, other: u32) -> f64 {
        let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
        one.max(other) / one.min(other)
    }

    #[test]
    fn every_palette_can_be_read_on_its_background() {
        let mut seen = std::collections::BTreeSet::new();
        for depth in [Depth::Own, Depth::Fixed, Depth::Any] {
            for background in [Background::Dark, Background::Light, Background::Auto] {
                let palette = Palette::choose(background, depth);
                let colors = [palette.good, palette.bad, palette.code];
                seen.insert(format!("{colors:?}"));
                // What must be read on both cannot stand out from either as far; the terminal's own are the terminal's.
                let least = match (depth, background) {
                    (Depth::Own, Background::Auto) => 2.3,
                    (Depth::Own, _) => 3.9,
                    (Depth::Fixed, Background::Auto) => 4.1,
                    _ => 4.5,
                };
                for scheme in &SCHEMES {
                    let grounds = match background {
                        Background::Dark => vec![scheme[0]],
                        Background::Light => vec![0xff_ffff],
                        Background::Auto => vec![0x00_0000, 0xff_ffff],
                    };
                    for (color, ground) in colors
                        .iter()
                        .flat_map(|color| grounds.iter().map(move |ground| (*color, *ground)))
                    {
                        let contrast = contrast(hex(color, scheme), ground);
                        assert!(
                            contrast >= least,
                            "{depth:?} {background:?} {color:?}: {contrast:.2} on {ground:06x}"
                        );
                    }
                }
            }
        }
        assert_eq!(seen.len(), 9);
    }

    #[test]
    fn no_more_colours_are_used_than_are_announced() {
        for (term, color_term, depth) in [
            (Some("xterm"), None, Depth::Own),
            (Some("xterm-256color"), None, Depth::Fixed),
            (Some("screen-256color"), Some("yes"), Depth::Fixed),
            (Some("xterm"), Some("truecolor"), Depth::Any),
            (None, Some("24bit"), Depth::Any),
            (None, None, Depth::Own),
        ] {
            assert_eq!(
                Depth::announced(term, color_term),
                depth,
                "{term:?} {color_term:?}"
            );
        }
    }
}
