// SPDX-License-Identifier: MIT
//! What the keys do and the columns mean, over everything else.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use crate::top::draw::Style;
use crate::top::keys::HELP;
use crate::top::row::COLUMNS;

pub fn draw(frame: &mut Frame, style: Style) {
    let area = frame.area();
    let columns = COLUMNS.iter().map(|column| (column.title(), column.meaning()));
    let all: Vec<(&str, &str)> = HELP.into_iter().chain(columns).collect();
    let names = all.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines: Vec<Line> = all.iter().map(|(name, meaning)| Line::from(format!("{name:<names$}  {meaning}"))).collect();
    let longest = lines.iter().map(Line::width).max().unwrap_or(0);
    let (width, height) = (u16::try_from(longest + 2).unwrap_or(u16::MAX), u16::try_from(lines.len() + 2).unwrap_or(0));
    let (width, height) = (width.min(area.width), height.min(area.height));
    // In lines of which a part goes into the next one, all of the screen is needed.
    let height = if usize::from(width) < longest + 2 { area.height } else { height };
    let at = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    frame.render_widget(Clear, at);
    let block = Block::bordered().title(" hak top ").border_style(style.titles());
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), at);
}
