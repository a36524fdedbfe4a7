// Maps of a result: labels in red and a probability in green, as the server packs them into one PNG.

import { colour, state } from "./state.js";

export class Layers {
  constructor(width, height, values) {
    this.width = width;
    this.height = height;
    this.values = values; // RGBA
  }

  static async decode(blob) {
    const bitmap = await createImageBitmap(blob, { colorSpaceConversion: "none", premultiplyAlpha: "none" });
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.drawImage(bitmap, 0, 0);
    const { data } = context.getImageData(0, 0, bitmap.width, bitmap.height);
    return new Layers(bitmap.width, bitmap.height, data);
  }

  /** Part of the image that a label covers. */
  area(label) {
    let count = 0;
    for (let i = 0; i < this.values.length; i += 4) count += this.values[i] === label;
    return (4 * count) / this.values.length;
  }

  /** The same labels with another threshold on the probability of one class. */
  thresholded(label, threshold) {
    const values = this.values.slice();
    const limit = threshold * 255;
    for (let i = 0; i < values.length; i += 4) values[i] = values[i + 1] > limit ? label : 0;
    return new Layers(this.width, this.height, values);
  }

  /** The drawing of labels, contours or the probability, as ImageData. */
  drawing({ opacity, contour, heat }) {
    const { width, height, values } = this;
    const out = new ImageData(width, height);
    const pixels = out.data;
    const colours = [0, ...state.settings.classes.map((_, i) => i + 1)].map(colour);
    const alpha = Math.round(255 * opacity);
    for (let i = 0, p = 0; i < values.length; i += 4, p++) {
      if (heat) {
        const [r, g, b] = HEAT[values[i + 1]];
        pixels[i] = r;
        pixels[i + 1] = g;
        pixels[i + 2] = b;
        pixels[i + 3] = Math.max(alpha, 90);
        continue;
      }
      const label = values[i];
      const c = colours[label];
      if (label && c) {
        pixels[i] = c[0];
        pixels[i + 1] = c[1];
        pixels[i + 2] = c[2];
        pixels[i + 3] = alpha;
      }
    }
    if (contour) this.contours(pixels, colours, heat);
    return out;
  }

  contours(pixels, colours, heat) {
    const { width, height, values } = this;
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        const i = 4 * (y * width + x);
        const label = values[i];
        if (!label) continue;
        const edge =
          (x > 0 && values[i - 4] !== label) ||
          (x < width - 1 && values[i + 4] !== label) ||
          (y > 0 && values[i - 4 * width] !== label) ||
          (y < height - 1 && values[i + 4 * width] !== label);
        if (!edge) continue;
        const c = heat ? [255, 255, 255] : colours[label] ?? [255, 255, 255];
        pixels[i] = c[0];
        pixels[i + 1] = c[1];
        pixels[i + 2] = c[2];
        pixels[i + 3] = 255;
      }
    }
  }
}

/** Dark blue over teal to yellow, in 256 steps of rising lightness. */
const HEAT = Array.from({ length: 256 }, (_, i) => {
  const stops = [[20, 18, 60], [40, 70, 140], [28, 130, 140], [90, 190, 100], [253, 231, 60]];
  const place = (i / 255) * (stops.length - 1);
  const low = Math.min(stops.length - 2, Math.floor(place));
  return stops[low].map((value, k) => Math.round(value + (place - low) * (stops[low + 1][k] - value)));
});
