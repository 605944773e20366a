// SPDX-License-Identifier: MIT
//! Colours, where they are wanted; what matters is told without them, too.

use ratatui::style::{Color, Modifier, Style as Look};
use ratatui::symbols::Marker;

#[derive(Debug, Clone, Copy)]
pub struct Style {
    pub coloured: bool,
}

impl Style {
    fn colour(self, colour: Color) -> Look {
        if self.coloured { Look::new().fg(colour) } else { Look::new() }
    }

    pub fn head(self) -> Look {
        self.colour(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    pub fn foot(self) -> Look {
        self.colour(Color::Cyan).add_modifier(Modifier::DIM)
    }

    pub fn titles(self) -> Look {
        self.colour(Color::Green).add_modifier(Modifier::BOLD)
    }

    pub fn selected(self) -> Look {
        Look::new().add_modifier(Modifier::REVERSED)
    }

    pub fn message(self) -> Look {
        self.colour(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    pub fn resident(self) -> Look {
        self.colour(Color::LightRed)
    }

    pub fn live(self) -> Look {
        self.colour(Color::LightBlue)
    }

    /// Lines of one colour are told apart by what they are made of.
    pub fn resident_marker(self) -> Marker {
        if self.coloured { Marker::Braille } else { Marker::Dot }
    }
}
