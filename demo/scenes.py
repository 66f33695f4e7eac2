"""The pictures of the demo's templates, drawn by code."""

from collections.abc import Callable, Mapping
from math import cos, pi, sin
from random import Random

from PIL import Image

from memeloom.demo.canvas import Canvas

WHITE, INK, GOLD, RED = (250, 250, 245), (22, 22, 30), (245, 190, 60), (205, 50, 45)


def night_cat() -> Image.Image:
    """A cat on a roof before a huge moon."""
    canvas = Canvas(500, 420, (10, 14, 44))
    canvas.fade((8, 10, 36), (44, 52, 110))
    rng = Random(3)
    for _ in range(60):
        canvas.disc(rng.uniform(0, 500), rng.uniform(0, 260), rng.uniform(0.6, 1.8), (220, 225, 250))
    canvas.disc(350, 170, 120, (250, 240, 200))
    for x, y, r in ((310, 130, 18), (390, 200, 26), (350, 235, 12), (400, 120, 10)):
        canvas.disc(x, y, r, (232, 220, 175))
    canvas.shape((64, 34, 40), (0, 420), (0, 330), (250, 285), (500, 330), (500, 420))
    for x in range(-20, 500, 50):
        canvas.stroke((48, 24, 32), 3, (x + 20, 420), (x + 60, 318))
    cat = (16, 14, 22)
    canvas.disc(330, 245, 52, cat, 1.15)
    canvas.disc(330, 172, 36, cat)
    canvas.shape(cat, (298, 160), (300, 112), (326, 142))
    canvas.shape(cat, (362, 160), (360, 112), (334, 142))
    canvas.stroke(cat, 16, (372, 288), (420, 300), (440, 270), (426, 240))
    for x in (316, 344):
        canvas.disc(x, 170, 8, (250, 220, 90), 1.2)
        canvas.disc(x, 170, 2.5, INK, 3.0)
    return canvas.finish()


def proud_toaster() -> Image.Image:
    """A toaster that flexes its arms, two slices in the air."""
    canvas = Canvas(480, 480, (250, 224, 130))
    for angle in range(0, 360, 20):
        a, b = angle * pi / 180, (angle + 10) * pi / 180
        far_a, far_b = (240 + 500 * cos(a), 260 + 500 * sin(a)), (240 + 500 * cos(b), 260 + 500 * sin(b))
        canvas.shape((250, 206, 100), (240, 260), far_a, far_b)
    canvas.block(0, 370, 480, 480, (84, 48, 34))
    for x, y in ((165, 112), (255, 92)):
        canvas.block(x, y, x + 66, y + 82, (160, 98, 44), 16)
        canvas.block(x + 7, y + 7, x + 59, y + 75, (235, 190, 120), 12)
    metal, dark = (136, 148, 166), (70, 78, 94)
    canvas.stroke(dark, 20, (120, 300), (60, 280), (62, 215))
    canvas.stroke(dark, 20, (360, 300), (420, 280), (418, 215))
    canvas.disc(62, 205, 20, dark)
    canvas.disc(418, 205, 20, dark)
    canvas.block(105, 205, 375, 405, metal, 44)
    canvas.block(150, 212, 330, 226, INK, 6)
    canvas.block(120, 235, 140, 385, (200, 208, 218), 10)
    canvas.eye(200, 285, 26, (0.6, -0.4))
    canvas.eye(285, 285, 26, (0.6, -0.4))
    canvas.stroke(INK, 6, (172, 250), (224, 262))
    canvas.stroke(INK, 6, (312, 250), (262, 262))
    canvas.arc(242, 320, 42, 10, 170, INK, 7)
    return canvas.finish()


def two_doors() -> Image.Image:
    """A small figure before a green and a red door."""
    canvas = Canvas(560, 430, (214, 200, 176))
    canvas.block(0, 0, 280, 330, (252, 240, 210))
    canvas.block(280, 0, 560, 330, (66, 52, 74))
    canvas.block(0, 330, 560, 430, (58, 46, 40))
    for x in range(0, 560, 70):
        canvas.stroke((78, 62, 54), 3, (280 + (x - 280) * 0.7, 330), (280 + (x - 280) * 1.5, 430))
    for left, colour, dark in ((50, (84, 176, 112), (58, 140, 84)), (350, (160, 38, 36), (112, 24, 26))):
        canvas.block(left - 12, 58, left + 172, 332, (78, 60, 48))
        canvas.block(left, 70, left + 160, 332, colour)
        for top in (92, 216):
            canvas.block(left + 22, top, left + 138, top + 94, dark, 6)
        canvas.disc(left + 142, 205, 8, GOLD)
    canvas.disc(280, 262, 26, (238, 196, 160))
    canvas.shape((52, 74, 140), (248, 380), (262, 290), (298, 290), (312, 380))
    canvas.stroke((52, 74, 140), 14, (264, 300), (232, 330))
    canvas.stroke((52, 74, 140), 14, (296, 300), (326, 326))
    canvas.stroke((150, 150, 170), 16, (268, 380), (262, 418))
    canvas.stroke((150, 150, 170), 16, (292, 380), (298, 418))
    canvas.disc(280, 250, 27, (70, 44, 30), 0.62)
    return canvas.finish()


def calm_captain() -> Image.Image:
    """A boat that sinks, bow up, and a captain who smiles."""
    canvas = Canvas(540, 400, (120, 140, 152))
    canvas.fade((70, 84, 98), (168, 182, 184), 0, 250)
    for x, y in ((90, 60), (150, 48), (430, 78), (370, 60), (220, 72)):
        canvas.disc(x, y, 52, (54, 64, 78), 0.5)
    canvas.stroke((240, 226, 120), 5, (440, 96), (420, 130), (438, 134), (414, 176))
    canvas.shape((138, 84, 48), (120, 300), (96, 250), (400, 130), (430, 190), (330, 330))
    canvas.shape((178, 112, 66), (96, 250), (104, 262), (406, 142), (400, 130))
    canvas.stroke((90, 60, 40), 10, (262, 240), (226, 90))
    canvas.shape(WHITE, (232, 100), (262, 206), (330, 178))
    canvas.disc(345, 108, 28, (238, 196, 160))
    canvas.shape((28, 44, 92), (318, 98), (372, 82), (366, 62), (314, 78))
    canvas.stroke(GOLD, 4, (318, 96), (371, 81))
    canvas.shape((28, 44, 92), (318, 158), (330, 130), (364, 126), (378, 138))
    canvas.disc(337, 106, 3.5, INK)
    canvas.disc(356, 102, 3.5, INK)
    canvas.arc(347, 112, 13, 0, 160, INK, 4)
    canvas.block(0, 268, 540, 400, (28, 84, 116))
    for row, colour in ((268, (28, 84, 116)), (306, (22, 68, 98)), (346, (16, 52, 80))):
        for x in range(-10, 560, 60):
            canvas.disc(x + row % 37, row, 34, colour, 0.45)
    return canvas.finish()


def robot_ladder() -> Image.Image:
    """Four panels; the robot in them grows brighter and grander."""
    canvas = Canvas(480, 640, WHITE)
    grounds = ((64, 68, 78), (52, 84, 120), (96, 60, 150), (250, 210, 90))
    bodies = ((120, 122, 128), (130, 170, 200), (180, 150, 240), (255, 250, 230))
    for panel in range(4):
        top = panel * 160
        canvas.block(240, top, 480, top + 156, grounds[panel])
        canvas.block(0, top, 236, top + 156, (178, 186, 196))
        middle, size = 360, 20 + 9 * panel
        for ray in range(4 * panel):
            a = ray * pi / (2 * panel) + 0.2
            canvas.stroke(bodies[panel], 3, (middle, top + 80), (middle + 110 * cos(a), top + 80 + 72 * sin(a)))
        canvas.block(middle - size, top + 70 - size * 0.8, middle + size, top + 70 + size * 0.6, bodies[panel], 8)
        canvas.block(middle - size * 0.7, top + 76 + size * 0.6, middle + size * 0.7, top + 148, bodies[panel], 6)
        for side in (-1, 1):
            canvas.eye(middle + side * size * 0.45, top + 66, 4 + 2.2 * panel, (0, -0.5 * panel / 3))
        canvas.stroke(bodies[panel], 4, (middle, top + 70 - size * 0.8), (middle, top + 50 - size * 0.8))
        canvas.disc(middle, top + 48 - size * 0.8, 4 + panel, RED)
    return canvas.finish()


def rocket_and_snail() -> Image.Image:
    """Left a rocket takes off, right a snail does not."""
    canvas = Canvas(600, 380, (24, 26, 60))
    canvas.fade((20, 20, 54), (110, 60, 120))
    canvas.block(300, 0, 600, 380, (206, 228, 190))
    canvas.block(300, 290, 600, 380, (110, 160, 84))
    canvas.block(297, 0, 303, 380, INK)
    canvas.shape(GOLD, (118, 290), (150, 372), (182, 290))
    canvas.shape(RED, (130, 290), (150, 340), (170, 290))
    canvas.shape(RED, (92, 296), (118, 222), (182, 222), (208, 296))
    canvas.block(112, 130, 188, 296, WHITE, 30)
    canvas.shape(RED, (114, 152), (150, 84), (186, 152))
    canvas.disc(150, 190, 20, (60, 130, 190))
    canvas.disc(150, 190, 13, (170, 220, 250))
    canvas.stroke((196, 168, 110), 34, (370, 300), (520, 300), (545, 262))
    canvas.disc(440, 252, 54, (150, 84, 60))
    for radius, colour in ((40, (190, 120, 80)), (27, (150, 84, 60)), (13, (205, 145, 100))):
        canvas.disc(440, 252, radius, colour)
    canvas.stroke((196, 168, 110), 6, (545, 255), (538, 214))
    canvas.stroke((196, 168, 110), 6, (556, 256), (566, 216))
    canvas.eye(538, 208, 10, (0.2, 0.6))
    canvas.eye(567, 210, 10, (0.2, 0.6))
    return canvas.finish()


def owl_lecture() -> Image.Image:
    """An owl in spectacles beside a blackboard."""
    canvas = Canvas(560, 420, (222, 196, 160))
    canvas.fade((255, 240, 206), (226, 196, 156))
    canvas.block(30, 34, 370, 290, (120, 80, 46), 6)
    canvas.block(44, 48, 356, 276, (18, 46, 34))
    canvas.block(60, 290, 340, 304, (150, 104, 64))
    canvas.block(90, 284, 140, 292, WHITE, 3)
    canvas.block(0, 330, 560, 420, (96, 66, 46))
    brown, pale = (122, 84, 58), (226, 196, 150)
    canvas.disc(460, 290, 84, brown, 1.2)
    canvas.disc(460, 310, 56, pale, 1.25)
    canvas.shape(brown, (386, 200), (378, 120), (434, 158))
    canvas.shape(brown, (534, 200), (542, 120), (486, 158))
    canvas.disc(460, 192, 78, brown, 0.85)
    for x in (428, 492):
        canvas.disc(x, 190, 34, INK)
        canvas.disc(x, 190, 29, (235, 240, 245))
        canvas.disc(x - 6, 192, 12, INK)
    canvas.stroke(INK, 5, (455, 188), (465, 188))
    canvas.shape(GOLD, (448, 216), (472, 216), (460, 246))
    canvas.stroke((180, 140, 90), 6, (392, 300), (316, 232))
    return canvas.finish()


def cactus_hug() -> Image.Image:
    """A cactus with open arms in an empty desert."""
    canvas = Canvas(420, 500, (252, 214, 160))
    canvas.fade((240, 120, 80), (255, 226, 150), 0, 340)
    canvas.disc(320, 250, 66, (255, 244, 190))
    canvas.disc(60, 352, 150, (222, 160, 96), 0.3)
    canvas.block(0, 340, 420, 500, (230, 176, 108))
    canvas.disc(330, 380, 170, (214, 154, 90), 0.2)
    green, dark = (62, 134, 78), (40, 100, 58)
    canvas.stroke(green, 44, (210, 310), (96, 310), (92, 226))
    canvas.stroke(green, 44, (210, 330), (326, 330), (330, 246))
    canvas.block(164, 156, 256, 446, green, 46)
    for x in (184, 210, 236):
        canvas.stroke(dark, 3, (x, 190), (x, 430))
    canvas.eye(190, 228, 13, (0, 0.7))
    canvas.eye(232, 228, 13, (0, 0.7))
    canvas.arc(211, 288, 22, 200, 340, INK, 5)
    canvas.disc(180, 252, 5, (120, 190, 240), 1.5)
    canvas.disc(210, 152, 16, (236, 92, 140), 0.7)
    canvas.disc(210, 446, 76, (196, 138, 80), 0.2)
    return canvas.finish()


def detective_duck() -> Image.Image:
    """A duck in a hat looks through a magnifying glass."""
    canvas = Canvas(520, 400, (86, 104, 92))
    for y in range(0, 400, 40):
        for x in range(-(y // 40 % 2) * 40, 520, 80):
            canvas.block(x + 2, y + 2, x + 78, y + 38, (100, 120, 106))
    canvas.block(0, 340, 520, 400, (52, 58, 60))
    yellow = (246, 206, 70)
    canvas.disc(200, 330, 130, yellow, 0.62)
    canvas.shape(yellow, (80, 300), (40, 250), (120, 262))
    canvas.disc(260, 190, 72, yellow)
    canvas.shape((236, 130, 40), (318, 186), (396, 206), (392, 224), (316, 226))
    canvas.disc(258, 134, 96, (94, 70, 50), 0.2)
    canvas.block(206, 72, 312, 136, (112, 84, 60), 24)
    canvas.block(204, 118, 314, 134, (60, 44, 34))
    canvas.eye(240, 184, 12, (0.8, 0.1))
    canvas.disc(312, 176, 46, (70, 54, 44))
    canvas.disc(312, 176, 38, (206, 226, 232))
    canvas.eye(306, 178, 27, (0.5, 0.1))
    canvas.stroke((70, 54, 44), 14, (340, 214), (382, 286))
    canvas.disc(230, 320, 56, (226, 180, 52), 0.6)
    return canvas.finish()


def summit_goat() -> Image.Image:
    """A goat on a peak, a flag beside it, the valley far below."""
    canvas = Canvas(500, 500, (140, 196, 236))
    canvas.fade((70, 140, 214), (226, 240, 250))
    for x, y in ((90, 130), (410, 90), (440, 250)):
        for dx, r in ((-26, 22), (0, 30), (28, 20)):
            canvas.disc(x + dx, y, r, WHITE, 0.7)
    canvas.shape((122, 150, 176), (-60, 500), (90, 300), (240, 500))
    canvas.shape((122, 150, 176), (300, 500), (430, 330), (580, 500))
    canvas.shape((92, 88, 96), (60, 500), (250, 232), (450, 500))
    canvas.shape(WHITE, (190, 316), (250, 232), (312, 316), (284, 304), (258, 330), (226, 302))
    goat = (242, 238, 228)
    for x in (228, 242, 268, 282):
        canvas.stroke(goat, 7, (x, 196), (x + (x - 255) * 0.2, 238))
    canvas.disc(254, 182, 40, goat, 0.58)
    canvas.disc(300, 148, 20, goat, 0.9)
    canvas.shape(goat, (304, 162), (320, 160), (306, 186))
    canvas.stroke((120, 96, 70), 6, (294, 132), (280, 104), (262, 100))
    canvas.disc(306, 144, 3.5, INK)
    canvas.stroke((90, 60, 40), 5, (196, 300), (196, 176))
    canvas.shape(RED, (194, 176), (140, 192), (194, 208))
    return canvas.finish()


def red_lever() -> Image.Image:
    """A wall of dials and one large lever under a crooked sign."""
    canvas = Canvas(460, 520, (70, 78, 88))
    for y in range(20, 520, 100):
        for x in range(20, 460, 105):
            canvas.disc(x, y, 4, (44, 50, 58))
    canvas.shape(WHITE, (52, 92), (398, 44), (414, 154), (68, 202))
    canvas.stroke((190, 50, 40), 6, (52, 92), (398, 44), (414, 154), (68, 202), (52, 92))
    for x, needle in ((84, -0.6), (376, 0.7)):
        canvas.disc(x, 300, 48, (32, 36, 42))
        canvas.disc(x, 300, 40, (226, 226, 214))
        canvas.stroke(RED, 4, (x, 306), (x + 30 * sin(needle), 306 - 30 * cos(needle)))
    canvas.block(176, 236, 284, 404, (40, 44, 52), 12)
    canvas.block(216, 250, 244, 390, (14, 16, 20), 8)
    canvas.stroke((180, 186, 194), 20, (230, 372), (290, 262))
    canvas.disc(298, 250, 34, RED)
    canvas.disc(288, 240, 10, (240, 130, 120))
    for step in range(-1, 8):
        canvas.shape(GOLD, (step * 70, 520), (step * 70 + 36, 440), (step * 70 + 70, 440), (step * 70 + 34, 520))
    return canvas.finish()


def cow_and_saucer() -> Image.Image:
    """A saucer lifts a cow out of its field."""
    canvas = Canvas(640, 400, (16, 40, 44))
    canvas.fade((8, 20, 34), (30, 84, 74))
    canvas.shape((150, 220, 150), (190, 120), (330, 120), (430, 400), (90, 400))
    canvas.shape((196, 240, 170), (225, 120), (295, 120), (340, 400), (180, 400))
    canvas.block(0, 348, 640, 400, (20, 52, 30))
    canvas.disc(260, 84, 60, (160, 216, 226), 0.75)
    canvas.disc(250, 74, 14, (96, 190, 96), 1.2)
    canvas.disc(246, 72, 4, INK, 1.4)
    canvas.disc(256, 72, 4, INK, 1.4)
    canvas.disc(260, 112, 138, (120, 126, 142), 0.24)
    canvas.disc(260, 106, 120, (164, 170, 186), 0.18)
    for x in range(160, 380, 40):
        canvas.disc(x, 116, 7, GOLD)
    canvas.disc(262, 250, 52, WHITE, 0.55)
    for x, y, r in ((240, 240, 14), (280, 258, 16), (268, 232, 8)):
        canvas.disc(x, y, r, INK)
    for x, y in ((228, 300), (246, 304), (280, 304), (298, 298)):
        canvas.stroke(WHITE, 9, (x, 268), (x + (x - 262) * 0.2, y))
    canvas.disc(320, 232, 20, WHITE, 0.9)
    canvas.disc(330, 242, 11, (236, 170, 170), 0.8)
    canvas.eye(318, 226, 6, (0, 1))
    canvas.block(480, 268, 580, 350, (112, 44, 40))
    canvas.shape((70, 30, 30), (468, 270), (530, 214), (592, 270))
    canvas.block(514, 300, 546, 350, (60, 26, 26))
    return canvas.finish()


SCENES: Mapping[str, Callable[[], Image.Image]] = {
    scene.__name__: scene
    for scene in (
        night_cat, proud_toaster, two_doors, calm_captain, robot_ladder, rocket_and_snail,
        owl_lecture, cactus_hug, detective_duck, summit_goat, red_lever, cow_and_saucer,
    )
}  # fmt: skip
