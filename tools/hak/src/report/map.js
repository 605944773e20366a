// SPDX-License-Identifier: MIT
"use strict";
const frames = JSON.parse(document.getElementById("frames").textContent);
// Each has what is other than in the one before.
for (let i = 1; i < frames.length; i++) {
  frames[i].superslabs = { ...frames[i - 1].superslabs, ...frames[i].superslabs };
}
const rows = [...document.querySelectorAll(".superslab")];
const show = (number) => {
  const frame = frames[number];
  document.getElementById("taken").textContent = frame.taken;
  document.getElementById("sums").textContent = frame.sums;
  for (const row of rows) {
    const its = frame.superslabs[row.dataset.at];
    const cells = row.querySelectorAll("i");
    for (const cell of cells) {
      cell.className = "n";
      cell.title = "";
    }
    if (!its) continue;
    for (const [first, count, text] of its.parts) {
      for (let i = first; i < first + count; i++) {
        cells[i].className = its.looks.slice(2 * i, 2 * i + 2);
        cells[i].title = text + "; " + its.resident[i] + " of 64 KiB resident";
      }
    }
  }
};
const slider = document.getElementById("frame");
// "page.html#3" begins with that moment.
const wanted = Number(location.hash.slice(1));
if (wanted in frames) slider.value = wanted;
slider.addEventListener("input", () => show(Number(slider.value)));
show(Number(slider.value));
