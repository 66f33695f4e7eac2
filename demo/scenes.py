"""The pictures of the demo's own templates, drawn by code. Each is a function without arguments."""

from collections.abc import Callable, Mapping
from math import cos, pi, sin
from random import Random

from PIL import Image

from memeloom.demo.easel import Easel

WHITE, INK, GOLD, RED = (250, 250, 245), (22, 22, 30), (245, 190, 60), (205, 50, 45)


def night_cat() -> Image.Image:
    """A cat on a roof before a huge moon."""
    easel = Easel(500, 420, (10, 14, 44))
    easel.fade((8, 10, 36), (44, 52, 110))
    chance = Random(3)
    for _ in range(60):
        easel.disc(chance.uniform(0, 500), chance.uniform(0, 260), chance.uniform(0.6, 1.8), (220, 225, 250))
    easel.disc(350, 170, 120, (250, 240, 200))
    for x, y, r in ((310, 130, 18), (390, 200, 26), (350, 235, 12), (400, 120, 10)):
        easel.disc(x, y, r, (232, 220, 175))
    easel.shape((64, 34, 40), (0, 420), (0, 330), (250, 285), (500, 330), (500, 420))
    for x in range(-20, 500, 50):
        easel.stroke((48, 24, 32), 3, (x + 20, 420), (x + 60, 318))
    cat = (16, 14, 22)
    easel.disc(330, 245, 52, cat, 1.15)
    easel.disc(330, 172, 36, cat)
    easel.shape(cat, (298, 160), (300, 112), (326, 142))
    easel.shape(cat, (362, 160), (360, 112), (334, 142))
    easel.stroke(cat, 16, (372, 288), (420, 300), (440, 270), (426, 240))
    for x in (316, 344):
        easel.disc(x, 170, 8, (250, 220, 90), 1.2)
        easel.disc(x, 170, 2.5, INK, 3.0)
    return easel.finish()


def proud_toaster() -> Image.Image:
    """A toaster that flexes its arms, two slices in the air."""
    easel = Easel(480, 480, (250, 224, 130))
    for angle in range(0, 360, 20):
        a, b = angle * pi / 180, (angle + 10) * pi / 180
        far_a, far_b = (240 + 500 * cos(a), 260 + 500 * sin(a)), (240 + 500 * cos(b), 260 + 500 * sin(b))
        easel.shape((250, 206, 100), (240, 260), far_a, far_b)
    easel.block(0, 370, 480, 480, (84, 48, 34))
    for x, y in ((165, 112), (255, 92)):
        easel.block(x, y, x + 66, y + 82, (160, 98, 44), 16)
        easel.block(x + 7, y + 7, x + 59, y + 75, (235, 190, 120), 12)
    metal, dark = (136, 148, 166), (70, 78, 94)
    easel.stroke(dark, 20, (120, 300), (60, 280), (62, 215))
    easel.stroke(dark, 20, (360, 300), (420, 280), (418, 215))
    easel.disc(62, 205, 20, dark)
    easel.disc(418, 205, 20, dark)
    easel.block(105, 205, 375, 405, metal, 44)
    easel.block(150, 212, 330, 226, INK, 6)
    easel.block(120, 235, 140, 385, (200, 208, 218), 10)
    easel.eye(200, 285, 26, (0.6, -0.4))
    easel.eye(285, 285, 26, (0.6, -0.4))
    easel.stroke(INK, 6, (172, 250), (224, 262))
    easel.stroke(INK, 6, (312, 250), (262, 262))
    easel.arc(242, 320, 42, 10, 170, INK, 7)
    return easel.finish()


def two_doors() -> Image.Image:
    """A small figure before a green and a red door."""
    easel = Easel(560, 430, (214, 200, 176))
    easel.block(0, 0, 280, 330, (252, 240, 210))
    easel.block(280, 0, 560, 330, (66, 52, 74))
    easel.block(0, 330, 560, 430, (58, 46, 40))
    for x in range(0, 560, 70):
        easel.stroke((78, 62, 54), 3, (280 + (x - 280) * 0.7, 330), (280 + (x - 280) * 1.5, 430))
    for left, colour, dark in ((50, (84, 176, 112), (58, 140, 84)), (350, (160, 38, 36), (112, 24, 26))):
        easel.block(left - 12, 58, left + 172, 332, (78, 60, 48))
        easel.block(left, 70, left + 160, 332, colour)
        for top in (92, 216):
            easel.block(left + 22, top, left + 138, top + 94, dark, 6)
        easel.disc(left + 142, 205, 8, GOLD)
    easel.disc(280, 262, 26, (238, 196, 160))
    easel.shape((52, 74, 140), (248, 380), (262, 290), (298, 290), (312, 380))
    easel.stroke((52, 74, 140), 14, (264, 300), (232, 330))
    easel.stroke((52, 74, 140), 14, (296, 300), (326, 326))
    easel.stroke((150, 150, 170), 16, (268, 380), (262, 418))
    easel.stroke((150, 150, 170), 16, (292, 380), (298, 418))
    easel.disc(280, 250, 27, (70, 44, 30), 0.62)
    return easel.finish()


def calm_captain() -> Image.Image:
    """A boat that sinks, bow up, and a captain who smiles."""
    easel = Easel(540, 400, (120, 140, 152))
    easel.fade((70, 84, 98), (168, 182, 184), 0, 250)
    for x, y in ((90, 60), (150, 48), (430, 78), (370, 60), (220, 72)):
        easel.disc(x, y, 52, (54, 64, 78), 0.5)
    easel.stroke((240, 226, 120), 5, (440, 96), (420, 130), (438, 134), (414, 176))
    easel.shape((138, 84, 48), (120, 300), (96, 250), (400, 130), (430, 190), (330, 330))
    easel.shape((178, 112, 66), (96, 250), (104, 262), (406, 142), (400, 130))
    easel.stroke((90, 60, 40), 10, (262, 240), (226, 90))
    easel.shape(WHITE, (232, 100), (262, 206), (330, 178))
    easel.disc(345, 108, 28, (238, 196, 160))
    easel.shape((28, 44, 92), (318, 98), (372, 82), (366, 62), (314, 78))
    easel.stroke(GOLD, 4, (318, 96), (371, 81))
    easel.shape((28, 44, 92), (318, 158), (330, 130), (364, 126), (378, 138))
    easel.disc(337, 106, 3.5, INK)
    easel.disc(356, 102, 3.5, INK)
    easel.arc(347, 112, 13, 0, 160, INK, 4)
    easel.block(0, 268, 540, 400, (28, 84, 116))
    for row, colour in ((268, (28, 84, 116)), (306, (22, 68, 98)), (346, (16, 52, 80))):
        for x in range(-10, 560, 60):
            easel.disc(x + row % 37, row, 34, colour, 0.45)
    return easel.finish()


def robot_ladder() -> Image.Image:
    """Four panels; the robot in them grows brighter and grander."""
    easel = Easel(480, 640, WHITE)
    grounds = ((64, 68, 78), (52, 84, 120), (96, 60, 150), (250, 210, 90))
    bodies = ((120, 122, 128), (130, 170, 200), (180, 150, 240), (255, 250, 230))
    for panel in range(4):
        top = panel * 160
        easel.block(240, top, 480, top + 156, grounds[panel])
        easel.block(0, top, 236, top + 156, (178, 186, 196))
        middle, size = 360, 20 + 9 * panel
        for ray in range(4 * panel):
            a = ray * pi / (2 * panel) + 0.2
            easel.stroke(bodies[panel], 3, (middle, top + 80), (middle + 110 * cos(a), top + 80 + 72 * sin(a)))
        easel.block(middle - size, top + 70 - size * 0.8, middle + size, top + 70 + size * 0.6, bodies[panel], 8)
        easel.block(middle - size * 0.7, top + 76 + size * 0.6, middle + size * 0.7, top + 148, bodies[panel], 6)
        for side in (-1, 1):
            easel.eye(middle + side * size * 0.45, top + 66, 4 + 2.2 * panel, (0, -0.5 * panel / 3))
        easel.stroke(bodies[panel], 4, (middle, top + 70 - size * 0.8), (middle, top + 50 - size * 0.8))
        easel.disc(middle, top + 48 - size * 0.8, 4 + panel, RED)
    return easel.finish()


def rocket_and_snail() -> Image.Image:
    """Left a rocket takes off, right a snail does not."""
    easel = Easel(600, 380, (24, 26, 60))
    easel.fade((20, 20, 54), (110, 60, 120))
    easel.block(300, 0, 600, 380, (206, 228, 190))
    easel.block(300, 290, 600, 380, (110, 160, 84))
    easel.block(297, 0, 303, 380, INK)
    easel.shape(GOLD, (118, 290), (150, 372), (182, 290))
    easel.shape(RED, (130, 290), (150, 340), (170, 290))
    easel.shape(RED, (92, 296), (118, 222), (182, 222), (208, 296))
    easel.block(112, 130, 188, 296, WHITE, 30)
    easel.shape(RED, (114, 152), (150, 84), (186, 152))
    easel.disc(150, 190, 20, (60, 130, 190))
    easel.disc(150, 190, 13, (170, 220, 250))
    easel.stroke((196, 168, 110), 34, (370, 300), (520, 300), (545, 262))
    easel.disc(440, 252, 54, (150, 84, 60))
    for radius, colour in ((40, (190, 120, 80)), (27, (150, 84, 60)), (13, (205, 145, 100))):
        easel.disc(440, 252, radius, colour)
    easel.stroke((196, 168, 110), 6, (545, 255), (538, 214))
    easel.stroke((196, 168, 110), 6, (556, 256), (566, 216))
    easel.eye(538, 208, 10, (0.2, 0.6))
    easel.eye(567, 210, 10, (0.2, 0.6))
    return easel.finish()


def owl_lecture() -> Image.Image:
    """An owl in spectacles beside a blackboard."""
    easel = Easel(560, 420, (222, 196, 160))
    easel.fade((255, 240, 206), (226, 196, 156))
    easel.block(30, 34, 370, 290, (120, 80, 46), 6)
    easel.block(44, 48, 356, 276, (18, 46, 34))
    easel.block(60, 290, 340, 304, (150, 104, 64))
    easel.block(90, 284, 140, 292, WHITE, 3)
    easel.block(0, 330, 560, 420, (96, 66, 46))
    brown, pale = (122, 84, 58), (226, 196, 150)
    easel.disc(460, 290, 84, brown, 1.2)
    easel.disc(460, 310, 56, pale, 1.25)
    easel.shape(brown, (386, 200), (378, 120), (434, 158))
    easel.shape(brown, (534, 200), (542, 120), (486, 158))
    easel.disc(460, 192, 78, brown, 0.85)
    for x in (428, 492):
        easel.disc(x, 190, 34, INK)
        easel.disc(x, 190, 29, (235, 240, 245))
        easel.disc(x - 6, 192, 12, INK)
    easel.stroke(INK, 5, (455, 188), (465, 188))
    easel.shape(GOLD, (448, 216), (472, 216), (460, 246))
    easel.stroke((180, 140, 90), 6, (392, 300), (316, 232))
    return easel.finish()


def cactus_hug() -> Image.Image:
    """A cactus with open arms in an empty desert."""
    easel = Easel(420, 500, (252, 214, 160))
    easel.fade((240, 120, 80), (255, 226, 150), 0, 340)
    easel.disc(320, 250, 66, (255, 244, 190))
    easel.disc(60, 352, 150, (222, 160, 96), 0.3)
    easel.block(0, 340, 420, 500, (230, 176, 108))
    easel.disc(330, 380, 170, (214, 154, 90), 0.2)
    green, dark = (62, 134, 78), (40, 100, 58)
    easel.stroke(green, 44, (210, 310), (96, 310), (92, 226))
    easel.stroke(green, 44, (210, 330), (326, 330), (330, 246))
    easel.block(164, 156, 256, 446, green, 46)
    for x in (184, 210, 236):
        easel.stroke(dark, 3, (x, 190), (x, 430))
    easel.eye(190, 228, 13, (0, 0.7))
    easel.eye(232, 228, 13, (0, 0.7))
    easel.arc(211, 288, 22, 200, 340, INK, 5)
    easel.disc(180, 252, 5, (120, 190, 240), 1.5)
    easel.disc(210, 152, 16, (236, 92, 140), 0.7)
    easel.disc(210, 446, 76, (196, 138, 80), 0.2)
    return easel.finish()


def detective_duck() -> Image.Image:
    """A duck in a hat looks through a magnifying glass."""
    easel = Easel(520, 400, (86, 104, 92))
    for y in range(0, 400, 40):
        for x in range(-(y // 40 % 2) * 40, 520, 80):
            easel.block(x + 2, y + 2, x + 78, y + 38, (100, 120, 106))
    easel.block(0, 340, 520, 400, (52, 58, 60))
    yellow = (246, 206, 70)
    easel.disc(200, 330, 130, yellow, 0.62)
    easel.shape(yellow, (80, 300), (40, 250), (120, 262))
    easel.disc(260, 190, 72, yellow)
    easel.shape((236, 130, 40), (318, 186), (396, 206), (392, 224), (316, 226))
    easel.disc(258, 134, 96, (94, 70, 50), 0.2)
    easel.block(206, 72, 312, 136, (112, 84, 60), 24)
    easel.block(204, 118, 314, 134, (60, 44, 34))
    easel.eye(240, 184, 12, (0.8, 0.1))
    easel.disc(312, 176, 46, (70, 54, 44))
    easel.disc(312, 176, 38, (206, 226, 232))
    easel.eye(306, 178, 27, (0.5, 0.1))
    easel.stroke((70, 54, 44), 14, (340, 214), (382, 286))
    easel.disc(230, 320, 56, (226, 180, 52), 0.6)
    return easel.finish()


def summit_goat() -> Image.Image:
    """A goat on a peak, a flag beside it, the valley far below."""
    easel = Easel(500, 500, (140, 196, 236))
    easel.fade((70, 140, 214), (226, 240, 250))
    for x, y in ((90, 130), (410, 90), (440, 250)):
        for dx, r in ((-26, 22), (0, 30), (28, 20)):
            easel.disc(x + dx, y, r, WHITE, 0.7)
    easel.shape((122, 150, 176), (-60, 500), (90, 300), (240, 500))
    easel.shape((122, 150, 176), (300, 500), (430, 330), (580, 500))
    easel.shape((92, 88, 96), (60, 500), (250, 232), (450, 500))
    easel.shape(WHITE, (190, 316), (250, 232), (312, 316), (284, 304), (258, 330), (226, 302))
    goat = (242, 238, 228)
    for x in (228, 242, 268, 282):
        easel.stroke(goat, 7, (x, 196), (x + (x - 255) * 0.2, 238))
    easel.disc(254, 182, 40, goat, 0.58)
    easel.disc(300, 148, 20, goat, 0.9)
    easel.shape(goat, (304, 162), (320, 160), (306, 186))
    easel.stroke((120, 96, 70), 6, (294, 132), (280, 104), (262, 100))
    easel.disc(306, 144, 3.5, INK)
    easel.stroke((90, 60, 40), 5, (196, 300), (196, 176))
    easel.shape(RED, (194, 176), (140, 192), (194, 208))
    return easel.finish()


def red_lever() -> Image.Image:
    """A wall of dials and one large lever under a crooked sign."""
    easel = Easel(460, 520, (70, 78, 88))
    for y in range(20, 520, 100):
        for x in range(20, 460, 105):
            easel.disc(x, y, 4, (44, 50, 58))
    easel.shape(WHITE, (52, 92), (398, 44), (414, 154), (68, 202))
    easel.stroke((190, 50, 40), 6, (52, 92), (398, 44), (414, 154), (68, 202), (52, 92))
    for x, needle in ((84, -0.6), (376, 0.7)):
        easel.disc(x, 300, 48, (32, 36, 42))
        easel.disc(x, 300, 40, (226, 226, 214))
        easel.stroke(RED, 4, (x, 306), (x + 30 * sin(needle), 306 - 30 * cos(needle)))
    easel.block(176, 236, 284, 404, (40, 44, 52), 12)
    easel.block(216, 250, 244, 390, (14, 16, 20), 8)
    easel.stroke((180, 186, 194), 20, (230, 372), (290, 262))
    easel.disc(298, 250, 34, RED)
    easel.disc(288, 240, 10, (240, 130, 120))
    for step in range(-1, 8):
        easel.shape(GOLD, (step * 70, 520), (step * 70 + 36, 440), (step * 70 + 70, 440), (step * 70 + 34, 520))
    return easel.finish()


def cow_and_saucer() -> Image.Image:
    """A saucer lifts a cow out of its field."""
    easel = Easel(640, 400, (16, 40, 44))
    easel.fade((8, 20, 34), (30, 84, 74))
    easel.shape((150, 220, 150), (190, 120), (330, 120), (430, 400), (90, 400))
    easel.shape((196, 240, 170), (225, 120), (295, 120), (340, 400), (180, 400))
    easel.block(0, 348, 640, 400, (20, 52, 30))
    easel.disc(260, 84, 60, (160, 216, 226), 0.75)
    easel.disc(250, 74, 14, (96, 190, 96), 1.2)
    easel.disc(246, 72, 4, INK, 1.4)
    easel.disc(256, 72, 4, INK, 1.4)
    easel.disc(260, 112, 138, (120, 126, 142), 0.24)
    easel.disc(260, 106, 120, (164, 170, 186), 0.18)
    for x in range(160, 380, 40):
        easel.disc(x, 116, 7, GOLD)
    easel.disc(262, 250, 52, WHITE, 0.55)
    for x, y, r in ((240, 240, 14), (280, 258, 16), (268, 232, 8)):
        easel.disc(x, y, r, INK)
    for x, y in ((228, 300), (246, 304), (280, 304), (298, 298)):
        easel.stroke(WHITE, 9, (x, 268), (x + (x - 262) * 0.2, y))
    easel.disc(320, 232, 20, WHITE, 0.9)
    easel.disc(330, 242, 11, (236, 170, 170), 0.8)
    easel.eye(318, 226, 6, (0, 1))
    easel.block(480, 268, 580, 350, (112, 44, 40))
    easel.shape((70, 30, 30), (468, 270), (530, 214), (592, 270))
    easel.block(514, 300, 546, 350, (60, 26, 26))
    return easel.finish()


SCENES: Mapping[str, Callable[[], Image.Image]] = {
    scene.__name__: scene
    for scene in (
        night_cat, proud_toaster, two_doors, calm_captain, robot_ladder, rocket_and_snail,
        owl_lecture, cactus_hug, detective_duck, summit_goat, red_lever, cow_and_saucer,
    )
}  # fmt: skip
